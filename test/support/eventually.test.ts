import { expect, test } from 'vitest';
import { eventually } from './eventually.ts';

test('returns the first truthy value', async () => {
  const values = [undefined, 0, '', 'ready', 'later'];
  expect(await eventually('a value', () => values.shift(), { interval: 0 })).toBe('ready');
});

test('fails with a message that names what was awaited', async () => {
  const failure = eventually('the upstream has the request', () => false, { timeout: 1 });
  await expect(failure).rejects.toThrow('timed out after 1 ms: the upstream has the request');
});

test('fails in time although the condition never settles', async () => {
  const never = new Promise<boolean>(() => {});
  await expect(eventually('an end', () => never, { timeout: 1 })).rejects.toThrow('an end');
});

test('points to the line that waits', async () => {
  const failure: unknown = await eventually('an end', () => false, { timeout: 1 }).catch((error: unknown) => error);
  expect(failure).toMatchObject({ stack: expect.stringMatching(/\n\s+at .*eventually\.test\.ts/) as string });
});

test('fails at once with the error of a condition that throws', async () => {
  const failure = eventually('an end', () => {
    throw new Error('has ended');
  });
  await expect(failure).rejects.toThrow('has ended');
});

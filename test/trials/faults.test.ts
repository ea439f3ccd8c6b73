import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { faults, type Fault } from '../../trials/faults/faults.ts';
import { Copy, withFault } from '../../trials/faults/try.ts';

test('the text of every fault occurs in its file exactly once, and its test file exists', () => {
  const stale = faults.filter((fault) => withFault(readFileSync(fault.file, 'utf8'), fault) === undefined);
  expect(stale.map(({ file, text }) => ({ file, text }))).toEqual([]);
  expect(faults.filter((fault) => !existsSync(fault.test))).toEqual([]);
});

test('a fault is noticed by a test that fails with it, missed by one that passes, and stale if its text is missing; skipped tests do not count as passed', async () => {
  const fault = (text: string, replacement: string): Fault => {
    return { file: 'src/envelope/json/sole-member.ts', text, replacement, test: 'test/envelope/sole-member.test.ts' };
  };
  const copy = new Copy(onTestFinished);
  const guard = '!reader.isWhole || ';
  expect(await copy.try(fault(guard, ''))).toBe('noticed');
  expect(await copy.try(fault(guard, '!reader.isWhole  || '))).toBe('missed');
  expect(await copy.try(fault('no such text', ''))).toBe('stale');
  // If skipped tests counted as passed, the image's tests would miss every fault on a machine without Docker.
  const skipped = 'test/input/skipped.test.ts';
  writeFileSync(
    join(copy.path, skipped),
    "import { test } from 'vitest'; test('runs', () => {}); test.skip('does not');",
  );
  expect(await copy.passes([skipped])).toBe(false);
}, 120_000);

import { expect, test } from 'vitest';
import { createLogger } from '../../src/telemetry/logger.ts';

test('an error is logged with code, message and stack, and without members added by a library', () => {
  const lines: string[] = [];
  const log = createLogger('info', { write: (line) => void lines.push(line) });
  const error = Object.assign(new Error('refused'), { code: 'ECONNREFUSED', address: '10.0.0.1', input: 'sk_live_x' });
  log.error({ err: error }, 'failed');
  const { err } = JSON.parse(lines.join('')) as { err: object };
  expect(Object.keys(err)).toEqual(['code', 'message', 'stack']);
  expect(lines.join('')).not.toMatch(/10\.0\.0\.1|sk_live_x/);
});

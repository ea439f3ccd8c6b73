import { expect, test } from 'vitest';
import { sliceLength } from '../../src/slices.ts';
import { ServerConnection } from '../../src/http1/connection.ts';
import { readLength } from '../../src/http1/reading.ts';

test('what was read from a socket is overwritten after each call in the tests of merchants’ traffic', () => {
  const bytes = Buffer.from('GET');
  // It is overwritten even if the call throws, as it does here without a connection.
  expect(() => ServerConnection.prototype.receive.call(undefined as never, bytes)).toThrow(TypeError);
  expect(bytes).toEqual(Buffer.alloc(3, 0xdb));
});

test('what is opened in later turns, when it has been overwritten, is longer than what one read brings', () => {
  expect(readLength).toBeLessThanOrEqual(sliceLength);
});

import { expect, test } from 'vitest';
import { sliceLength } from '../../src/slices.ts';
import { ServerConnection } from '../../src/http1/connection.ts';
import { readLength } from '../../src/http1/reading.ts';

test('in the tests of merchants’ traffic, what was read from a socket is overwritten after each call', () => {
  const bytes = Buffer.from('GET');
  // What was read is overwritten even if the call throws, as it does here without a connection.
  expect(() => ServerConnection.prototype.receive.call(undefined as never, bytes)).toThrow(TypeError);
  expect(bytes).toEqual(Buffer.alloc(3, 0xdb));
});

test('only bodies longer than one read are opened in later turns, when what was read has been overwritten', () => {
  expect(readLength).toBeLessThanOrEqual(sliceLength);
});

import { expect, test } from 'vitest';
import { expectRefusedOnceRead, post, start } from '../support/refused.ts';

test.each([
  ['a broken chunk', post('Transfer-Encoding: chunked'), 'zz\r\n', 'malformed_request'],
  ['a coding that only the headers show', post('Transfer-Encoding: chunked\t'), '', 'ambiguous_request'],
] as const)(
  'a request that is refused for bytes in the same piece as its head is not forwarded: %s',
  async (_name, head, rest, code) => {
    const { upstream, sidecar } = await start();
    await expectRefusedOnceRead(sidecar, upstream, head + rest, code);
    expect(upstream.heads()).toBe(0);
  },
);

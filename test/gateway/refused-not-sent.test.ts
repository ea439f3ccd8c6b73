import { expect, test } from 'vitest';
import { openConnection } from '../support/connection.ts';
import { authorization, expectRefusedOnceRead, post, request, start, valid } from '../support/refused.ts';

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

test('a request that arrives while the connection of a refused request is being closed is not forwarded', async () => {
  const { upstream, sidecar } = await start();
  for (let i = 0; i < 50; i += 1) {
    const client = await openConnection(sidecar.port);
    client.socket.once('data', () => void client.send(valid));
    client.send(request('GET /a/../b HTTP/1.1', 'Host: localhost', authorization));
    await client.untilEnded();
  }
  expect(upstream.heads()).toBe(0);
});

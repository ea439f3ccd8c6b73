import { expect, test } from 'vitest';
import { openConnection } from '../support/connection.ts';
import { expectRefusedOnceRead, post, request, start, valid } from '../support/refused.ts';

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
  const client = await openConnection(sidecar.port);
  const body = 'x'.repeat(65_000);
  // The kernel's buffer grows with what is sent, until it has room for more than Node reads at once.
  for (let i = 1; i <= 4; i += 1) {
    await client.send(post(`Content-Length: ${body.length}`) + body).untilText('{"ok":true}', i);
  }
  // Node reads 64 KiB, which are the whole refused request, and the next 64 KiB before the connection is closed.
  const refused = (padding: string): string =>
    request('POST /a/../b HTTP/1.1', 'Host: localhost', `Content-Length: ${body.length}`, `X: ${padding}`) + body;
  client.send(refused('x'.repeat(65_536 - refused('').length)) + valid);
  await client.untilEnded();
  await (await openConnection(sidecar.port)).send(valid).untilText('{"ok":true}');
  expect(upstream.heads()).toBe(4 + 1);
});

import { expect, onTestFinished, test, vi } from 'vitest';
import type { LookupResult } from '../../src/accounts/key-directory.ts';
import { lingerTime } from '../../src/http.ts';
import { LookUps } from '../../src/proxy/capacity/look-ups.ts';
import { startByteUpstream } from '../support/byte-upstream.ts';
import { send } from '../support/client.ts';
import { openConnection, parseOnly } from '../support/connection.ts';
import { startGateway } from '../support/gateway.ts';
import { inFlight, limitUsed } from '../support/metrics.ts';
import { authorization, post, request, valid } from '../support/refused.ts';
import { apiKey, configOf, globex, keys, startSidecar } from '../support/sidecar.ts';
import { onEachResponse, settle } from '../support/turns.ts';
import { startUpstream } from '../support/upstream.ts';

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}';

test('a response before the end of its request frees the slot and closes the connection', async () => {
  const { origin } = await startByteUpstream(({ socket }) => void socket.write(ok), { every: true });
  const sidecar = await startSidecar(configOf(origin, { limits: { inFlight: 1 } }));
  const client = await openConnection(sidecar.port);
  client.send(`${post('Content-Length: 100')}half`);
  await client.untilText('{}');
  expect((await send(sidecar, 'GET /next', { key: keys.globex })).status).toBe(200);
  const { headers } = parseOnly(await client.untilEnded());
  expect(headers['connection']).toBe('close');
});

test('a response before the end of its request is charged while the client does not read it', async () => {
  // Cork the socket so that the kernel takes nothing. Otherwise, it would take a different part of each response.
  onEachResponse(({ connection }) => connection.socket.cork());
  const { origin } = await startByteUpstream(({ socket }) => void socket.write(ok), { every: true });
  const sidecar = await startSidecar(configOf(origin));
  const client = await openConnection(sidecar.port);
  client.send(`${post('Content-Length: 100')}half`);
  await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBeGreaterThan(ok.length));
  expect(await limitUsed(sidecar, 'in_flight')).toBe(0);
});

test.each([
  [65_536, 'open', undefined],
  [65_537, 'end', 'close'],
])('a refused request with %i bytes of body to come leaves its connection: %s', async (length, ending, connection) => {
  const { origin } = await startUpstream();
  const sidecar = await startSidecar(configOf(origin));
  const client = await openConnection(sidecar.port);
  client.send(request('POST / HTTP/1.1', 'Host: localhost', `Content-Length: ${length}`));
  const head = await client.untilText('missing_api_key');
  expect(/^Connection: (.*)\r$/im.exec(head)?.[1]).toBe(connection);
  client.send('x'.repeat(length) + valid);
  if (ending === 'open') await client.untilText('{"ok":true}');
  else expect(parseOnly(await client.untilEnded()).status).toBe(401);
  expect(client.ending).toBe(ending);
});

test('a refused request whose body stops arriving has its connection closed after the linger time', async () => {
  const { origin } = await startUpstream();
  const sidecar = await startSidecar(configOf(origin));
  const client = await openConnection(sidecar.port);
  client.send(`${request('POST / HTTP/1.1', 'Host: localhost', 'Content-Length: 10')}half`);
  await client.untilText('missing_api_key');
  await vi.waitFor(() => expect(client.ending).toBe('end'), { timeout: 2 * lingerTime });
});

test('a request whose client disconnects while its key is looked up is not sent and leaves nothing in flight', async () => {
  const { sidecar, upstream } = await startGateway();
  const { promise, resolve } = Promise.withResolvers<LookupResult>();
  const lookUp = vi.spyOn(LookUps.prototype, 'find').mockReturnValueOnce(promise);
  onTestFinished(() => lookUp.mockRestore());
  const client = await openConnection(sidecar.port);
  client.send(request('GET /left HTTP/1.1', 'Host: localhost', authorization));
  await vi.waitFor(() => expect(lookUp).toHaveBeenCalledTimes(1));
  client.socket.destroy();
  await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(1));
  lookUp.mockRestore();
  const response = await send(sidecar, 'GET /next', { key: keys.globex });
  expect(response.status).toBe(200);
  resolve({ account: globex, key: apiKey(keys.globex) });
  await settle();
  expect((await send(sidecar, 'GET /last', { key: keys.globex })).status).toBe(200);
  expect(upstream.seen.map(({ url }) => url)).toEqual(['/next', '/last']);
  expect(await inFlight(sidecar)).toBe(0);
});

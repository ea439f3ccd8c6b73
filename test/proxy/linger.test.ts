import { expect, test } from 'vitest';
import { openConnection } from '../support/connection.ts';
import { send } from '../support/client.ts';
import { configOf, keys, startSidecar } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

test('refused requests whose body never arrives take no slot', async () => {
  const upstream = await startUpstream();
  const sidecar = await startSidecar(configOf(upstream.origin, { limits: { inFlight: 8 } }));
  for (let i = 0; i < 8; i += 1) {
    const client = await openConnection(sidecar.port);
    await client.send('POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n').untilText('missing_api_key');
  }
  expect((await send(sidecar, 'GET /', { key: keys.globex })).status).toBe(200);
});

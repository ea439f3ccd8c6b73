import { once } from 'node:events';
import { connect, type ConnectionOptions } from 'node:tls';
import { expect, test, vi } from 'vitest';
import { createAuthority } from '../support/certificates.ts';
import { scrape } from '../support/metrics.ts';
import { operatorsOf } from '../support/sidecar.ts';
import { dashboard, startApi } from './api.ts';

const authority = createAuthority();
const own = authority.issue('DNS:localhost', 'IP:127.0.0.1');
const client = authority.issue('DNS:client');

/** What a client gets that sends a request on a connection of its own. `session` can be resumed. */
async function send(options: ConnectionOptions) {
  const socket = connect({ host: '127.0.0.1', ca: authority.cert, ...client, ...options });
  let session: Buffer | undefined;
  let received = '';
  let isResumed = false;
  socket
    .on('secureConnect', () => (isResumed = socket.isSessionReused()))
    .on('session', (ticket) => (session = ticket))
    .on('data', (bytes) => (received += bytes.toString()))
    .on('error', () => {})
    .write('GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
  await once(socket, 'close');
  return { session, status: received.slice(9, 12), isResumed };
}

test.each([
  ['merchants', 'TLSv1.2'],
  ['merchants', 'TLSv1.3'],
  ['operators', 'TLSv1.2'],
  ['operators', 'TLSv1.3'],
] as const)(
  'a client of the %s listener resumes no session after its certificate has expired, with %s',
  async (listener, version) => {
    let now = Date.now();
    const tls = { ...own, clientCa: authority.cert };
    const { sidecar } = await startApi(
      { listen: { host: '127.0.0.1', port: 0, tls }, operators: operatorsOf([dashboard], { tls }) },
      () => now,
    );
    const port = listener === 'merchants' ? sidecar.port : (sidecar.app.addresses.operators?.port ?? 0);
    const options = { port, minVersion: version, maxVersion: version };
    const first = await send(options);
    expect(first.status).toMatch(/^[34]/);
    const second = await send({ ...options, session: first.session });
    expect(second).toMatchObject({ status: first.status, isResumed: true });
    now += 3 * 86_400_000;
    expect(await send({ ...options, session: second.session ?? first.session })).toMatchObject({ status: '' });
    const failures = `tls_handshake_failures_total{listener="${listener}",reason="certificate_expired"} 1`;
    await vi.waitFor(async () => expect(await scrape(sidecar)).toContain(failures));
  },
);

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls, getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { TrafficRecorder } from '../src/telemetry/traffic-recorder.ts';
import { startByteUpstream } from './support/byte-upstream.ts';
import { createAuthority, type Certificate } from './support/certificates.ts';
import { openConnection } from './support/connection.ts';
import { eventually } from './support/eventually.ts';
import { admin, configOf, keys, operatorsOf, route, startSidecar } from './support/sidecar.ts';
import { settle } from './support/turns.ts';
import { startUpstream } from './support/upstream.ts';

const authority = createAuthority();

describe('a new configuration', () => {
  const other = createAuthority();
  const plain = { host: '127.0.0.1', port: 0, tls: undefined };
  const secured = { ...plain, tls: { ...authority.issue('IP:127.0.0.1'), clientCa: undefined } };
  const demanding = { ...plain, tls: { ...secured.tls, clientCa: authority.cert } };
  const operators = operatorsOf([admin('dashboard', 'a'.repeat(32))]);
  const elsewhere = { host: '127.0.0.2', port: 0 };
  type Members = Parameters<typeof configOf>[1];

  test.each<[string, Members, Members]>([
    ['listen', {}, { listen: { ...plain, ...elsewhere } }],
    ['listen.tls', {}, { listen: secured }],
    ['listen.tls.clientCa', { listen: secured }, { listen: demanding }],
    ['listen.tls.clientCa', { listen: demanding }, { listen: secured }],
    ['admin', {}, { admin: elsewhere }],
    ['operators', {}, { operators }],
    ['operators', { operators }, {}],
    ['operators', { operators }, { operators: { ...operators, ...elsewhere } }],
    ['operators.tls', { operators }, { operators: { ...operators, tls: secured.tls } }],
    [
      'operators.tls.clientCa',
      { operators: { ...operators, tls: secured.tls } },
      { operators: { ...operators, tls: demanding.tls } },
    ],
    ['limits.header', {}, { limits: { header: 8_192 } }],
  ])('that changes %s logs that this change needs a restart, and applies the rest', async (member, before, after) => {
    const { origin } = await startUpstream();
    const sidecar = await startSidecar(configOf(origin, before));
    const warnings = (): unknown[] => sidecar.log.filter(({ level }) => level === 'warn').map((line) => line['member']);
    sidecar.app.apply(configOf(origin, before));
    expect(warnings()).toEqual([]);
    sidecar.app.apply(configOf(origin, { ...after, log: { level: 'warn', client: 'none' } }));
    expect(warnings()).toEqual([member]);
    // The warning is logged again with each reload until the restart.
    sidecar.app.apply(configOf(origin, after));
    expect(warnings()).toEqual([member, member]);
    // The operators' page lists this member among those that need a restart.
    expect(readFileSync('docs/operators/reload.md', 'utf8')).toContain(`\`${member}\``);
  });

  test('is applied and reported as a failure if its traces cannot be configured', async () => {
    const { origin } = await startUpstream();
    const { app, log } = await startSidecar(configOf(origin));
    vi.spyOn(TrafficRecorder.prototype, 'configure').mockRejectedValueOnce(new Error('EMFILE'));
    app.apply(configOf(origin, { log: { level: 'debug', client: 'none' } }));
    await eventually('it is logged', () => log.some(({ msg }) => msg === 'traces cannot be configured'));
    expect(app.settings.log.level).toBe('debug');
  });

  test('with a lower limits.header does not limit a head in progress, because it applies only after the restart', async () => {
    const { origin } = await startUpstream();
    const sidecar = await startSidecar(configOf(origin));
    const client = await openConnection(sidecar.port);
    client.send(
      `GET /x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.globex}\r\nX-Long: ${'x'.repeat(10_000)}`,
    );
    await settle();
    sidecar.app.apply(configOf(origin, { limits: { header: 2_048 } }));
    await client.send('\r\n\r\n').untilText('HTTP/1.1 200 ');
  });

  test('with another CA for client certificates accepts its clients and no others', async () => {
    const { origin } = await startUpstream();
    const sidecar = await startSidecar(configOf(origin, { listen: demanding }));
    const clients = [authority.issue('DNS:merchant'), other.issue('DNS:merchant')];
    const letsIn = ({ cert, key }: Certificate): Promise<boolean> => ask(connect(sidecar, { cert, key }));
    expect(await Promise.all(clients.map(letsIn))).toEqual([true, false]);
    sidecar.app.apply(configOf(origin, { listen: { ...demanding, tls: { ...demanding.tls, clientCa: other.cert } } }));
    expect(await Promise.all(clients.map(letsIn))).toEqual([false, true]);
    const expected = new Set<unknown>(['request', 'TLS handshakes failed']);
    const warnings = sidecar.log.filter(({ level, msg }) => level === 'warn' && !expected.has(msg));
    expect(warnings).toEqual([]);
  });

  test('with an expired certificate logs an error, as a start does', async () => {
    const { origin } = await startUpstream();
    const config = configOf(origin, { listen: demanding });
    let now = Date.now();
    const sidecar = await startSidecar(config, () => now);
    const expired = ({ log }: Pick<typeof sidecar, 'log'>): unknown =>
      log.filter(({ msg }) => msg === 'the certificate has expired').map(({ level, member }) => [level, member]);
    sidecar.app.apply(config);
    expect(expired(sidecar)).toEqual([]);
    now += 3 * 86_400_000;
    sidecar.app.apply(config);
    const both = ['listen.tls.cert', 'listen.tls.clientCa'].map((member) => ['error', member]);
    expect(expired(sidecar)).toEqual(both);
    expect(expired(await startSidecar(config, () => now))).toEqual(both);
  });

  test('without the CA for client certificates still requires certificates from it, and logs that this needs a restart', async () => {
    const { origin } = await startUpstream();
    const sidecar = await startSidecar(configOf(origin, { listen: demanding }));
    // Adds another CA to Node's default list, which Node would use without `ca`. Clients with certificates from that CA
    // must not be accepted either.
    const before = getCACertificates('default');
    setDefaultCACertificates([other.cert]);
    onTestFinished(() => setDefaultCACertificates(before));
    sidecar.app.apply(configOf(origin, { listen: secured }));
    const letsIn = (client: Partial<Certificate>): Promise<boolean> => ask(connect(sidecar, client));
    expect(await letsIn(other.issue('DNS:stranger'))).toBe(false);
    expect(await letsIn({})).toBe(false);
    expect(await letsIn(authority.issue('DNS:merchant'))).toBe(true);
    expect(sidecar.log.flatMap((line) => line['member'] ?? [])).toEqual(['listen.tls.clientCa']);
  });

  test('with another CA closes connections that the previous one admitted, after their responses', async () => {
    let respond = (): void => {};
    const upstream = await startUpstream((_req, res) => {
      respond = () => void res.end('late');
    });
    const sidecar = await startSidecar(configOf(upstream.origin, { listen: demanding }));
    const client = authority.issue('DNS:merchant');
    const [idle, busy] = [connect(sidecar, client), connect(sidecar, client)];
    expect(await ask(idle)).toBe(true);
    const closed = (socket: TLSSocket): Promise<boolean> =>
      new Promise((resolve) => void socket.once('close', () => resolve(true)));
    const [idleClosed, busyClosed] = [closed(idle), closed(busy)];
    const response = ask(busy, keys.globex);
    await eventually('the upstream has the request', () => upstream.seen.length === 1);
    sidecar.app.apply(
      configOf(upstream.origin, { listen: { ...demanding, tls: { ...demanding.tls, clientCa: other.cert } } }),
    );
    expect(await idleClosed).toBe(true);
    respond();
    expect(await response).toBe(true);
    expect(await busyClosed).toBe(true);
  });

  test('with another CA closes WebSockets that the previous one admitted', async () => {
    const upstream = await startByteUpstream(
      ({ socket }) =>
        void socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
    );
    const routes = [route('/ws', { upgrade: true })];
    const sidecar = await startSidecar(configOf(upstream.origin, { listen: demanding, routes }));
    const client = connect(sidecar, authority.issue('DNS:merchant'));
    client.write(
      `GET /ws HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.globex}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
    );
    const [response] = (await once(client, 'data')) as [Buffer];
    expect(response.toString()).toContain(' 101 ');
    const closed = once(client, 'close');
    sidecar.app.apply(
      configOf(upstream.origin, { listen: { ...demanding, tls: { ...demanding.tls, clientCa: other.cert } }, routes }),
    );
    await closed;
  });

  test('judges a handshake by the new CA even if its connection is older, on both listeners', async () => {
    const { origin } = await startUpstream();
    const both = (clientCa: string): Members => {
      const tls = { ...secured.tls, clientCa };
      return { listen: { ...plain, tls }, operators: { ...operators, tls } };
    };
    const sidecar = await startSidecar(configOf(origin, both(authority.cert)));
    const client = authority.issue('DNS:merchant');
    for (const port of [sidecar.port, sidecar.app.addresses.operators?.port ?? 0]) {
      sidecar.app.apply(configOf(origin, both(authority.cert)));
      const begin = async (): Promise<Socket> => {
        const socket = connectTcp(port, '127.0.0.1').on('error', () => {});
        onTestFinished(() => void socket.destroy());
        await once(socket, 'connect');
        return socket;
      };
      const [early, late] = [await begin(), await begin()];
      // Once a later connection gets its response, the listener has also accepted these two.
      expect(await ask(connect({ port }, client))).toBe(true);
      const overTcp = (socket: Socket): TLSSocket =>
        connectTls({ socket, host: '127.0.0.1', ca: authority.cert, ...client }).on('error', () => {});
      expect(await ask(overTcp(early))).toBe(true);
      sidecar.app.apply(configOf(origin, both(other.cert)));
      expect(await ask(overTcp(late))).toBe(false);
      expect(await ask(connect({ port }, client))).toBe(false);
    }
  });

  test('with another CA does not resume a session of a client that the previous one admitted', async () => {
    const { origin } = await startUpstream();
    const sidecar = await startSidecar(configOf(origin, { listen: demanding }));
    const client = authority.issue('DNS:merchant');
    const first = connect(sidecar, client);
    const ticket = once(first, 'session');
    expect(await ask(first)).toBe(true);
    const [session] = (await ticket) as [Buffer];
    const resumed = (): TLSSocket =>
      connectTls({ host: '127.0.0.1', port: sidecar.port, ca: authority.cert, ...client, session }).on(
        'error',
        () => {},
      );
    expect(await ask(resumed())).toBe(true);
    sidecar.app.apply(configOf(origin, { listen: { ...demanding, tls: { ...demanding.tls, clientCa: other.cert } } }));
    expect(await ask(resumed())).toBe(false);
  });

  test.each([
    ['shorter', 60_000, 300],
    ['longer', 1_000, 60_000],
  ])('with a %s timeouts.header applies it to TLS handshakes', async (_name, before, after) => {
    const { origin } = await startUpstream();
    const config = (header: number) => configOf(origin, { listen: secured, timeouts: { header } });
    const sidecar = await startSidecar(config(before));
    const earlier = await openConnection(sidecar.port);
    sidecar.app.apply(config(after));
    const half = await openConnection(sidecar.port);
    // Sends only part of the first TLS record.
    half.send(Buffer.from([0x16, 0x03, 0x01]));
    // A shorter limit also applies to connections that are already waiting, a longer one only to later connections.
    await earlier.untilEnded();
    if (after < before) await half.untilEnded();
    else expect(half.ending).toBe('open');
  });
});

/** Connects with this client certificate, or without one. */
function connect({ port }: { readonly port: number }, { cert, key }: Partial<Certificate>): TLSSocket {
  const socket = connectTls({ host: '127.0.0.1', port, ca: authority.cert, ...(cert && key && { cert, key }) });
  onTestFinished(() => void socket.destroy());
  return socket.on('error', () => {});
}

/** Sends a request on the connection. Returns whether it gets a response. */
function ask(socket: TLSSocket, apiKey = 'none'): Promise<boolean> {
  return new Promise((resolve) => {
    socket.once('data', () => resolve(true)).once('close', () => resolve(false));
    socket.write(`GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${apiKey}\r\n\r\n`);
  });
}

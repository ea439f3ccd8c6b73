import { spawn } from 'node:child_process';
import type { ServerResponse } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import { WebSocket } from 'ws';
import { startByteUpstream } from '../support/byte-upstream.ts';
import { createAuthority } from '../support/certificates.ts';
import { openConnection, parseResponses } from '../support/connection.ts';
import { inFlight } from '../support/metrics.ts';
import { configOf, globex, keys, route, startSidecar, type TestSidecar } from '../support/sidecar.ts';
import { startWebSocketUpstream } from '../support/web-socket-upstream.ts';
import { startRawUpstream, startUpstream } from '../support/upstream.ts';

const authorization = `Bearer ${keys.globex}`;

describe('a listener with TLS', () => {
  const authority = createAuthority();
  const own = authority.issue('DNS:localhost', 'IP:127.0.0.1');
  const client = authority.issue('DNS:merchant');
  const strange = createAuthority().issue('DNS:merchant');

  function listenTls(
    upstream: string,
    clientCa?: string,
    more: Parameters<typeof configOf>[1] = {},
  ): Promise<TestSidecar> {
    return startSidecar(
      configOf(upstream, { listen: { host: '127.0.0.1', port: 0, tls: { ...own, clientCa } }, ...more }),
    );
  }

  /** Sends one request and resolves with the status of its response. Rejects if there is none. */
  function get(sidecar: TestSidecar, options: RequestOptions = {}): Promise<number> {
    return new Promise((resolve, reject) => {
      const headers = { authorization };
      httpsRequest(
        { host: '127.0.0.1', port: sidecar.port, ca: authority.cert, agent: false, headers, ...options },
        (res) => {
          res.resume();
          resolve(res.statusCode ?? 0);
        },
      )
        .on('error', reject)
        .end();
    });
  }

  test('serves requests, and names the protocol in X-Forwarded-Proto', async () => {
    const upstream = await startUpstream();
    const sidecar = await listenTls(upstream.origin);
    expect(await get(sidecar)).toBe(200);
    expect(upstream.seen[0]?.headers['x-forwarded-proto']).toBe('https');
    await expect(get(sidecar, { ca: createAuthority().cert })).rejects.toThrow(/certificate/);
  });

  test.each(['TLSv1.2', 'TLSv1.3'] as const)('speaks %s', async (version) => {
    const upstream = await startUpstream();
    const sidecar = await listenTls(upstream.origin);
    expect(await get(sidecar, { minVersion: version, maxVersion: version })).toBe(200);
  });

  test('resumes a session from before a change to the accounts, but none from before a change to the certificate', async () => {
    const upstream = await startUpstream();
    const listenOn = (tls: typeof own) => ({ host: '127.0.0.1', port: 0, tls: { ...tls, clientCa: undefined } });
    const config = configOf(upstream.origin, { listen: listenOn(own) });
    const sidecar = await startSidecar(config);
    const connect = async (session?: Buffer) => {
      const options = { host: '127.0.0.1', port: sidecar.port, ca: authority.cert, maxVersion: 'TLSv1.2' } as const;
      const socket = connectTls({ ...options, ...(session && { session }) });
      await once(socket, 'secureConnect');
      socket.end();
      return socket;
    };
    const session = (await connect()).getSession();
    sidecar.app.apply({ ...config, accounts: [{ ...globex, name: 'Another' }] });
    expect((await connect(session)).isSessionReused()).toBe(true);
    sidecar.app.apply({ ...config, listen: listenOn(authority.issue('DNS:localhost', 'IP:127.0.0.1')) });
    expect((await connect(session)).isSessionReused()).toBe(false);
  });

  test.each(['TLSv1', 'TLSv1.1'] as const)('does not speak %s', async (version) => {
    const upstream = await startUpstream();
    const sidecar = await listenTls(upstream.origin);
    const old: ConnectionOptions = { minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' };
    await expect(get(sidecar, old)).rejects.toThrow(/protocol version/);
    expect(upstream.heads()).toBe(0);
  });

  test('does not exchange keys by RSA, but by ECDHE', async () => {
    const upstream = await startUpstream();
    const ofRsa = createAuthority(2, 'rsa');
    const tls = { ...ofRsa.issue('DNS:localhost', 'IP:127.0.0.1'), clientCa: undefined };
    const sidecar = await listenTls(upstream.origin, undefined, { listen: { host: '127.0.0.1', port: 0, tls } });
    const old = { ca: ofRsa.cert, maxVersion: 'TLSv1.2' } as const;
    await expect(get(sidecar, { ...old, ciphers: 'kRSA' })).rejects.toThrow(/handshake failure/);
    expect(upstream.heads()).toBe(0);
    expect(await get(sidecar, { ...old, ciphers: 'ECDHE' })).toBe(200);
  });

  test('does not encrypt with ARIA, which takes long, although the client may choose', async () => {
    const ciphers = 'ECDHE-ARIA256-GCM-SHA384';
    const upstream = await startUpstream();
    const ofRsa = createAuthority(2, 'rsa');
    const tls = { ...ofRsa.issue('DNS:localhost', 'IP:127.0.0.1'), clientCa: undefined };
    const sidecar = await listenTls(upstream.origin, undefined, { listen: { host: '127.0.0.1', port: 0, tls } });
    const old = { ca: ofRsa.cert, maxVersion: 'TLSv1.2' } as const;
    await expect(get(sidecar, { ...old, ciphers })).rejects.toThrow(/handshake failure/);
    expect(upstream.heads()).toBe(0);
    expect(await get(sidecar, { ...old, ciphers: `${ciphers}:ECDHE-RSA-AES128-GCM-SHA256` })).toBe(200);
  });

  test.each(['X25519MLKEM768', 'X25519', 'P-256'])('exchanges keys in the group %s', async (ecdhCurve) => {
    const upstream = await startUpstream();
    expect(await get(await listenTls(upstream.origin), { ecdhCurve })).toBe(200);
  });

  test.each(['P-384', 'P-521', 'X448', 'ffdhe2048', 'ffdhe3072'])(
    'does not exchange keys in the group %s, which takes long, although the client may choose',
    async (ecdhCurve) => {
      const upstream = await startUpstream();
      const sidecar = await listenTls(upstream.origin);
      for (const curves of [ecdhCurve, `${ecdhCurve}:P-256`])
        await expect(get(sidecar, { ecdhCurve: curves })).rejects.toThrow(/handshake failure/);
      expect(upstream.heads()).toBe(0);
      // The client offers the group too, but its key share is in another.
      expect(await get(sidecar, { ecdhCurve: `${ecdhCurve}:*P-256` })).toBe(200);
    },
  );

  test('with a client CA accepts only clients with its certificates', async () => {
    const upstream = await startUpstream();
    const sidecar = await listenTls(upstream.origin, authority.cert);
    expect(await get(sidecar, client)).toBe(200);
    await expect(get(sidecar)).rejects.toThrow(/certificate required|socket hang up|ECONNRESET/);
    await expect(get(sidecar, strange)).rejects.toThrow(/unknown ca|socket hang up|ECONNRESET/);
    expect(upstream.heads()).toBe(1);
    // Clients whose handshakes failed have made no request.
    expect(sidecar.accessLines()).toHaveLength(1);
  });

  test('sends no response to a client that does not speak TLS', async () => {
    const upstream = await startUpstream();
    const sidecar = await listenTls(upstream.origin);
    const plain = await openConnection(sidecar.port);
    plain.send('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await plain.untilEnded();
    expect(plain.received).not.toContain('HTTP/');
    expect(sidecar.accessLines()).toEqual([]);
  });

  test('closes a connection that never completes the handshake', async () => {
    const upstream = await startUpstream();
    const sidecar = await listenTls(upstream.origin, undefined, { timeouts: { header: 200 } });
    const silent = await openConnection(sidecar.port);
    await silent.untilEnded();
    expect(sidecar.accessLines()).toEqual([]);
  });

  test('carries WebSockets', async () => {
    const upstream = await startWebSocketUpstream();
    const sidecar = await listenTls(upstream.origin, undefined, {
      routes: [route('/ws', { upgrade: true })],
    });
    const socket = new WebSocket(`wss://127.0.0.1:${sidecar.port}/ws`, {
      ca: authority.cert,
      headers: { authorization },
    });
    onTestFinished(() => socket.terminate());
    await once(socket, 'open');
    socket.send('hello');
    expect(String((await once(socket, 'message'))[0])).toBe('hello');
  });

  test('ends a truncated response without the close_notify of a complete one', async () => {
    const responses: ServerResponse[] = [];
    const upstream = await startRawUpstream((_req, res) => {
      res.write('hello');
      responses.push(res);
    });
    const sidecar = await listenTls(upstream.origin);
    // openssl, unlike Node, reports the difference.
    const ask = (finish: (res: ServerResponse) => void): Promise<string> => {
      const child = spawn('openssl', ['s_client', '-quiet', '-ign_eof', '-connect', `127.0.0.1:${sidecar.port}`]);
      let output = '';
      child.stdout.on('data', (chunk: Buffer) => {
        output += chunk.toString();
        const [res] = output.includes('hello') ? responses.splice(0) : [];
        if (res !== undefined) finish(res);
      });
      child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
      child.stdin.write(`GET / HTTP/1.0\r\nHost: localhost\r\nAuthorization: ${authorization}\r\n\r\n`);
      return new Promise((resolve) => void child.once('close', () => resolve(output)));
    };
    expect(await ask((res) => res.end())).toMatch(/hello(?![^]*unexpected eof)/);
    expect(await ask((res) => res.destroy())).toMatch(/hello[^]*unexpected eof/);
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
  });
});

describe('a connection between two requests', () => {
  const idle = 300;
  const get = (path: string): string =>
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${authorization}\r\n\r\n`;

  test('is closed by FIN, not by a reset, after the idle timeout', async () => {
    const upstream = await startUpstream();
    const sidecar = await startSidecar(configOf(upstream.origin, { timeouts: { idle } }));
    const client = await openConnection(sidecar.port);
    client.send(get('/'));
    await client.untilText('{"ok":true}');
    expect(client.ending).toBe('open');
    await client.untilEnded();
    expect(client.ending).toBe('end');
    expect(parseResponses(client.received)).toHaveLength(1);
    expect(sidecar.accessLines()).toHaveLength(1);
  });

  test('stays open as long as it is used', async () => {
    const upstream = await startUpstream();
    const sidecar = await startSidecar(configOf(upstream.origin, { timeouts: { idle } }));
    const client = await openConnection(sidecar.port);
    for (let i = 1; i <= 6; i += 1) {
      client.send(get(`/${i}`));
      await client.untilText('{"ok":true}', i);
      await sleep(idle / 3);
    }
    expect(parseResponses(client.received)).toHaveLength(6);
  });

  test('is not idle while a response is awaited', async () => {
    const upstream = await startByteUpstream(({ socket }) => {
      setTimeout(() => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate'), 3 * idle);
    });
    const sidecar = await startSidecar(configOf(upstream.origin, { timeouts: { idle } }));
    const client = await openConnection(sidecar.port);
    client.send(get('/'));
    await client.untilText('late');
  });
});

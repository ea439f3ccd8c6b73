import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { connect as connectTls } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { AccountsError } from '../../src/accounts/accounts-error.ts';
import type { Operations } from '../../src/accounts/operations.ts';
import { isKnownHost } from '../../src/operators/origin.ts';
import { createOperatorsListener } from '../../src/operators/listener.ts';
import { ByteBudget } from '../../src/operators/byte-budget.ts';
import { findToken } from '../../src/operators/tokens.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { RecentTraffic } from '../../src/telemetry/recent-traffic.ts';
import { createAuthority } from '../support/certificates.ts';
import { openConnection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { holdReports } from '../support/held-reports.ts';
import { openRaw13 } from '../support/key-updates.ts';
import { listen, listens } from '../support/listen.ts';
import { settle } from '../support/turns.ts';
import { admin, operatorsOf } from '../support/sidecar.ts';
import { ask, dashboard, expectProblem, startApi, token, type TestApi } from './api.ts';
import { sha256Hex } from '../../src/cryptography.ts';

describe('a request to the operators’ API with the Host', () => {
  test.each([
    '127.0.0.1',
    '127.0.0.1:9091',
    '10.1.2.3:1',
    '[::1]',
    '[::1]:9091',
    'localhost',
    'LocalHost:9091',
    'sidecar.internal',
    'Sidecar.Internal:443',
    '[fe80::1]:80',
  ])('%s gets a response', (host) => {
    expect(isKnownHost([host], ['sidecar.internal'])).toBe(true);
  });

  test.each([
    undefined,
    '',
    ':9091',
    'evil.example',
    'evil.example:9091',
    'localhost.evil.example',
    'evil-localhost',
    'localhost.',
    '127.0.0.1.evil.example',
    '127.1',
    '2130706433',
    '0x7f.1',
    '127.0.0.1:9091:1',
    '127.0.0.1:x',
    '[::1].evil.example',
    '[evil.example]',
    '[127.0.0.1]',
    '::1',
    'x@localhost',
    'localhost/evil.example',
    'sidecar.internal.evil.example',
    'other.sidecar.internal',
  ])('%j is refused', (host) => {
    expect(isKnownHost(host === undefined ? undefined : [host], ['sidecar.internal'])).toBe(false);
  });

  test('of an unknown site is refused before its token is checked, on every path', async () => {
    const { sidecar } = await startApi();
    const port = sidecar.app.addresses.operators?.port ?? 0;
    for (const path of ['/api/v1/accounts', '/api/v1/openapi.json', '/', '/console/']) {
      const head = `GET ${path} HTTP/1.1\r\nHost: evil.example:${port}\r\nConnection: close\r\n`;
      const responses = [`${head}\r\n`, `${head}Authorization: Bearer ${token}\r\n\r\n`].map((request) =>
        exchange(port, request),
      );
      for (const response of await Promise.all(responses)) {
        expect(response).toMatch(/^HTTP\/1\.1 421 /);
        expect(response).toContain('"code":"unknown_host"');
      }
    }
  });

  test('missing or repeated is refused', async () => {
    const { sidecar } = await startApi();
    const port = sidecar.app.addresses.operators?.port ?? 0;
    const head = `GET /api/v1/accounts HTTP/1.0\r\nAuthorization: Bearer ${token}\r\n`;
    expect(await exchange(port, `${head}\r\n`)).toMatch(/^HTTP\/1\.1 421 /);
    const twice = `${head.replace('1.0', '1.1')}Host: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n`;
    expect(await exchange(port, twice)).toMatch(/^HTTP\/1\.1 421 /);
  });

  test('of a configured name is accepted, and a reload changes these names', async () => {
    const { sidecar, config } = await startApi();
    const port = sidecar.app.addresses.operators?.port ?? 0;
    const request = `GET /api/v1/accounts HTTP/1.1\r\nHost: ops.internal\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`;
    expect(await exchange(port, request)).toMatch(/^HTTP\/1\.1 421 /);
    sidecar.app.apply({ ...config, operators: operatorsOf([dashboard], { hosts: ['ops.internal'] }) });
    expect(await exchange(port, request)).toMatch(/^HTTP\/1\.1 200 /);
  });
});

describe('a token', () => {
  const hash = sha256Hex(token);

  test.each(Array.from(hash, (_, i) => i))('is refused if its hash differs in digit %i alone', (i) => {
    const other = `${hash.slice(0, i)}${hash[i] === '0' ? '1' : '0'}${hash.slice(i + 1)}`;
    expect(findToken(`Bearer ${token}`, [{ ...dashboard, hash: other }])).toBeUndefined();
    expect(findToken(`Bearer ${token}`, [{ ...dashboard, hash: other }, dashboard])).toBe(dashboard);
  });

  test('is accepted wherever it is among others', () => {
    const others = ['a', 'b'].map((name) => admin(name, name));
    expect(findToken(`Bearer ${token}`, [dashboard, ...others])).toBe(dashboard);
    expect(findToken(`Bearer ${token}`, [...others, dashboard])).toBe(dashboard);
    expect(findToken('Bearer ', [...others, dashboard])).toBeUndefined();
    expect(findToken('', [{ ...dashboard, hash: sha256Hex('') }])).toBeUndefined();
  });
});

/** Starts a listener that has only these operations. It is closed after the test. */
async function startListener(
  operations: Partial<Operations>,
  write: (line: string) => void = () => {},
): Promise<{ readonly listener: Server; readonly port: number; readonly close: () => Promise<void> }> {
  const { listener, close } = await createOperatorsListener({
    state: () => ({
      operations: operations as unknown as Operations,
      isServed: () => Promise.reject(new Error('not asked')),
      find: async () => undefined,
      sealing: new ByteBudget(() => 0),
      dailyUses: async () => undefined,
      recent: new RecentTraffic(Date.now),
      sidecar: () => {
        throw new Error('not asked');
      },
      tokens: [dashboard],
      hosts: [],
      console: true,
      documentation: undefined,
    }),
    log: createLogger('info', { write }),
    metrics: { request: () => {}, refused: () => {} },
    clock: Date.now,
    tls: undefined,
    onHandshakeFailure: () => {},
  });
  return { listener, port: await listen(listener), close };
}

test('an internal error is logged and not in the response', async () => {
  const log: string[] = [];
  const { port } = await startListener(
    { show: () => Promise.reject(new TypeError('cannot read /var/lib/secret of undefined')) },
    (line) => void log.push(line),
  );
  const response = await ask(`http://127.0.0.1:${port}/api/v1`, 'GET /accounts/acme');
  expect(expectProblem(response, 500, 'internal_error')).toBe('The log has the cause, under the id of this request.');
  expect(JSON.stringify(response.body)).not.toMatch(/secret|TypeError|undefined|\.ts/);
  expect(log.join('')).toContain(String(response.body['request_id']));
});

test.each([
  ['run/accounts.yaml was changed: try again', 'run/accounts.yaml was changed: try again.'],
  ['accounts.yaml was changed', 'accounts.yaml was changed.'],
  ['account acme is gone', 'Account acme is gone.'],
])('the error "%s" has the detail "%s"', async (message, detail) => {
  const { port } = await startListener({ show: () => Promise.reject(new AccountsError('store_changed', message)) });
  const response = await ask(`http://127.0.0.1:${port}/api/v1`, 'GET /accounts/acme');
  expect(expectProblem(response, 503, 'store_changed')).toBe(detail);
});

test('a client that does not read its response for a minute is disconnected', async () => {
  const account = { id: 'acme', name: 'x'.repeat(32 << 20), active: true, keys: [], encryption: {} };
  const { listener, port } = await startListener({ show: () => Promise.resolve(account) as never });
  expect(listener.timeout).toBe(60_000);
  // Shorten this deadline for the test.
  listener.setTimeout(1_000);
  const client = await openConnection(port);
  client.send(`GET /api/v1/accounts/acme HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  await client.untilText('\r\n\r\n');
  client.socket.pause();
  const connections = (): Promise<number> =>
    new Promise((resolve, reject) =>
      listener.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
    );
  await vi.waitFor(async () => expect(await connections()).toBe(0), { timeout: 10_000 });
  client.socket.resume();
  await client.untilEnded();
  expect(client.received.length).toBeLessThan(32 << 20);
});

describe('a request', () => {
  /** Starts a listener that knows no account. `shown` lists the ids of the accounts that were requested. */
  const startShowing = async () => {
    const shown: string[] = [];
    const show = async (id: string): Promise<never> => {
      shown.push(id);
      throw new AccountsError('account_unknown', `there is no account ${id}`);
    };
    return { ...(await startListener({ show })), shown };
  };
  const show = (id: string): string =>
    `GET /api/v1/accounts/${id} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n\r\n`;
  const head = (id: string, more = ''): string =>
    `POST /api/v1/accounts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n` +
    `Content-Type: application/json\r\n${more}Content-Length: ${JSON.stringify({ id, name: id }).length}\r\n\r\n`;
  const ids = async (api: TestApi): Promise<unknown> =>
    ((await api.ask('GET /accounts')).body['accounts'] as { id: string }[]).map(({ id }) => id);

  test('that is pipelined is not carried out, and the connection ends', async () => {
    const api = await startApi();
    const port = api.sidecar.app.addresses.operators?.port ?? 0;
    const both = ['first', 'second'].map((id) => `${head(id)}${JSON.stringify({ id, name: id })}`);
    await exchange(port, both.join('')).catch(() => {});
    expect(await ids(api)).toEqual(['first']);
  });

  test('that follows a response at once is carried out, although Node has not been told that the response was sent', async () => {
    const { listener, port, shown } = await startShowing();
    const report = holdReports(({ localPort }) => localPort === port);
    const client = await openConnection(port);
    client.send(show('first'));
    await client.untilText('no account first');
    client.send(show('second'));
    await settle();
    expect(shown).toEqual(['first']);
    report();
    await client.untilText('no account second');
    report();
    await settle();
    // A request that gets no response, because the previous response was the last one of the connection, is not carried out either.
    listener.prependListener('request', (_req, res: ServerResponse) => void (res.shouldKeepAlive = false));
    client.send(show('last'));
    await client.untilText('no account last');
    client.send(show('late'));
    await settle();
    report();
    await client.untilEnded();
    await settle();
    expect(shown).toEqual(['first', 'second', 'last']);
  });

  test('that is pipelined behind a waiting request ends the connection', async () => {
    const { port, shown } = await startShowing();
    holdReports(({ localPort }) => localPort === port);
    const client = await openConnection(port);
    client.send(show('first'));
    await client.untilText('no account first');
    // Only one request may wait. A second one ends the connection.
    client.send(show('third') + show('fourth'));
    await client.untilEnded();
    expect(shown).toEqual(['first']);
  });

  test('on a connection that is already closed is not carried out', async () => {
    const { listener, port, shown } = await startShowing();
    listener.prependListener('request', (req: IncomingMessage) => req.socket.destroy());
    const client = await openConnection(port);
    client.send(show('one'));
    await client.untilEnded();
    await settle();
    expect(shown).toEqual([]);
  });

  test('is completed when the listener closes, even if its response is made but not read yet', async () => {
    const { listener, port, close } = await startShowing();
    const writes: (() => void)[] = [];
    listener.on('connection', (socket: Socket) => {
      const [send, sendAll] = [socket._write.bind(socket), socket._writev?.bind(socket)];
      socket._write = (bytes, encoding, sent) => void writes.push(() => send(bytes, encoding, sent));
      socket._writev = (all, sent) => void writes.push(() => sendAll?.(all, sent));
    });
    const client = await openConnection(port);
    client.send(show('one'));
    await vi.waitFor(() => expect(writes).not.toEqual([]));
    const closed = close();
    await expect.poll(() => listens(port)).toBe(false);
    for (const write of writes.splice(0)) write();
    await closed;
    expect(await client.untilEnded()).toContain('no account one');
  });

  test('with two lengths, or a length that is not a number, is refused', async () => {
    const api = await startApi();
    const port = api.sidecar.app.addresses.operators?.port ?? 0;
    for (const more of ['Transfer-Encoding: chunked\r\n', 'Content-Length: 1\r\n', 'Content-Length: 0x1\r\n']) {
      expect(await exchange(port, `${head('acme', more)}{"id":"acme","name":"acme"}`)).toMatch(/^HTTP\/1\.1 400 /);
    }
    expect(await ids(api)).toEqual([]);
  });

  test('has 16 KiB of body at most', async () => {
    const { ask } = await startApi();
    const body = (bytes: number): string => JSON.stringify({ id: 'acme', name: 'Acme' }).padEnd(bytes);
    expectProblem(await ask('POST /accounts', { body: body(16_385) }), 413, 'body_too_large');
    expect((await ask('POST /accounts', { body: body(16_384) })).status).toBe(201);
  });

  test('with a body of another type, as a form of another page could send, is refused', async () => {
    const api = await startApi();
    const body = '{"id":"acme","name":"Acme"}';
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data',
      'application/jsonx',
    ]) {
      const { status } = await api.ask('POST /accounts', { body, headers: { 'content-type': type } });
      expect({ type, status }).toEqual({ type, status: expect.toBeOneOf([400, 415]) as number });
    }
    expect(await ids(api)).toEqual([]);
  });
});

describe('what is not HTTP', () => {
  const head = `POST /api/v1/accounts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;

  test.each([
    ['a header with a space in its name', 'GET / HTTP/1.1\r\nHo st: x\r\n\r\n', 400, 'malformed_request'],
    ['another version', 'GET / HTTP/3.0\r\n\r\n', 400, 'malformed_request'],
    ['a chunk without a length', `${head}Transfer-Encoding: chunked\r\n\r\nx\r\n`, 400, 'malformed_request'],
    ['a head of 20 KB', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`, 431, 'headers_too_large'],
  ] as const)(
    'such as %s gets a problem document, a log line, and the end of the connection',
    async (_, request, status, code) => {
      const api = await startApi();
      const response = await exchange(api.sidecar.app.addresses.operators?.port ?? 0, request);
      const [start, body = ''] = response.split('\r\n\r\n');
      expect(start).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
      expect(start).toContain('\r\nContent-Type: application/problem+json\r\n');
      expect(start).toContain('\r\nConnection: close');
      const document = JSON.parse(body) as { request_id: string };
      expect(document).toMatchObject({ type: 'about:blank', status, code });
      expect(start).toContain(`\r\nX-Request-Id: ${document.request_id}\r\n`);
      const { request_id } = document;
      expect(api.sidecar.log).toContainEqual(
        expect.objectContaining({ msg: 'operator request', request_id, status, code }),
      );
    },
  );

  test('after a request that is being carried out gets no response of its own', async () => {
    const begun = Promise.withResolvers<void>();
    const { port } = await startListener({
      show: () => {
        begun.resolve();
        return new Promise(() => {});
      },
    });
    const client = await openConnection(port);
    client.send(`GET /api/v1/accounts/acme HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n\r\n`);
    await begun.promise;
    client.send('Ho st: x\r\n\r\n');
    await client.untilEnded();
    expect(client.received).toBe('');
  });

  test('a body that does not arrive gets a problem document', async () => {
    const { listener, port } = await startListener({});
    expect(listener.requestTimeout).toBe(10_000);
    // Shorten this deadline for the test.
    listener.requestTimeout = 500;
    const response = await exchange(port, `${head}Content-Length: 12\r\n\r\n{`);
    expect(response).toMatch(/^HTTP\/1\.1 408 .*"code":"request_timeout"/s);
  });

  test('a request with two tokens counts as one without a token', async () => {
    const { sidecar } = await startApi();
    const credentials = `Authorization: Bearer ${token}\r\n`;
    const request = `GET /api/v1/accounts HTTP/1.1\r\nHost: localhost\r\n${credentials}${credentials}Connection: close\r\n\r\n`;
    expect(await exchange(sidecar.app.addresses.operators?.port ?? 0, request)).toMatch(/^HTTP\/1\.1 401 /);
  });

  test('an expectation that HTTP does not define is ignored', async () => {
    const { sidecar } = await startApi();
    const request = `GET /api/v1/accounts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\nExpect: zz\r\nConnection: close\r\n\r\n`;
    expect(await exchange(sidecar.app.addresses.operators?.port ?? 0, request)).toMatch(/^HTTP\/1\.1 200 /);
  });
});

describe('when the sidecar is stopped', () => {
  const tokens = Array.from({ length: 4 }, (_, i) => `${token}-${i}`);

  test('each change that is made gets its response', async () => {
    const operators = operatorsOf(tokens.map((each, i) => admin(`operator-${i}`, each)));
    const { ask: send, sidecar } = await startApi({ operators });
    await send('POST /accounts', { body: { id: 'acme', name: 'Acme' }, token: tokens[0] ?? null });
    const body = { environment: 'live', kind: 'secret' };
    let answered = 0;
    const all = Array.from({ length: 12 }, async (_, i) => {
      const { status } = await send('POST /accounts/acme/keys', { body, token: tokens[i % tokens.length] ?? null });
      if (status === 201) answered += 1;
    });
    const changes = Promise.allSettled(all);
    await eventually('the first change is made', async () => answered > 0);
    await sidecar.app.stop();
    await changes;
    expect(answered).toBeGreaterThan(1);
    expect(sidecar.log.filter(({ action }) => action === 'key_issued')).toHaveLength(answered);
  });

  test('a connection closes after its next response, and a request that hangs is aborted within seconds', async () => {
    const { sidecar, url } = await startApi();
    const head = `Host: localhost\r\nAuthorization: Bearer ${token}\r\n`;
    const port = Number(new URL(url).port);
    const [slow, hanging] = await Promise.all([openConnection(port), openConnection(port)]);
    for (const client of [slow, hanging])
      client.send(
        `POST /api/v1/accounts HTTP/1.1\r\n${head}Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{`,
      );
    await settle();
    const stopped = sidecar.app.stop();
    await eventually('the listener is closed', async () => !(await listens(port)));
    slow.send('xxxxxxxx');
    expect(await slow.untilEnded()).toMatch(/^HTTP\/1\.1 400 [^]*\r\nconnection: close\r\n/);
    expect(await hanging.untilEnded()).toBe('');
    await stopped;
  });
});

describe('a stalled connection', () => {
  const seconds = 8_000;

  test('is closed within seconds during the TLS handshake', { timeout: 2 * seconds }, async () => {
    const { cert, key } = createAuthority().issue('DNS:localhost');
    const { sidecar } = await startApi({
      operators: operatorsOf([dashboard], { tls: { cert, key, clientCa: undefined } }),
    });
    const port = sidecar.app.addresses.operators?.port ?? 0;
    // These are the first bytes of a ClientHello of 512 bytes, which never arrives in full.
    const half = Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc]);
    await Promise.all([Buffer.alloc(0), half].map((bytes) => expectEnd(connect(port, '127.0.0.1'), bytes, seconds)));
  });

  test('is closed at once if its client replaces the TLS keys again and again', async () => {
    const { cert, key } = createAuthority().issue('DNS:localhost');
    const { sidecar } = await startApi({
      operators: operatorsOf([dashboard], { tls: { cert, key, clientCa: undefined } }),
    });
    const client = await openRaw13(sidecar.app.addresses.operators?.port ?? 0);
    client.replaceKeys(1_000);
    // This is less than the five seconds after which the missing head would close the connection.
    await vi.waitFor(() => expect(client.socket.destroyed).toBe(true), { timeout: 3_000 });
  });

  test('is closed within seconds if its head is incomplete', { timeout: 2 * seconds }, async () => {
    const { sidecar } = await startApi();
    const port = sidecar.app.addresses.operators?.port ?? 0;
    const heads = ['', 'GET /api/v1/accounts HTTP/1.1\r\nHost: localhost\r\nX-More: '];
    await Promise.all(heads.map((head) => expectEnd(connect(port, '127.0.0.1'), Buffer.from(head), seconds)));
  });

  describe.each(['without TLS', 'over TLS'])('%s', (tls) => {
    const { cert, key } = createAuthority().issue('DNS:localhost');
    const otherToken = 'token-of-another-operator-0123456789';
    const tenTokens = Array.from({ length: 10 }, (_, i) => `token-${i}-of-ten-operators-0123456789`);
    const isOpen = ({ destroyed }: Socket): boolean => !destroyed;

    async function start() {
      const secured = { tls: { cert, key, clientCa: undefined } };
      const ofAccount = tenTokens.map((each, i) => ({ ...admin(`acme-${i}`, `acme-${each}`), account: 'acme' }));
      const tokens = [
        dashboard,
        ...[otherToken, ...tenTokens].map((each, i) => admin(`other-${i}`, each)),
        ...ofAccount,
      ];
      const api = await startApi({ operators: operatorsOf(tokens, tls === 'over TLS' ? secured : {}) });
      const port = api.sidecar.app.addresses.operators?.port ?? 0;
      const open = (): Socket =>
        tls === 'over TLS'
          ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
          : connect(port, '127.0.0.1');
      return { port, open };
    }

    /** Sends a request on a connection. @returns the status of the response */
    async function askOn(socket: Socket, authorization: string): Promise<string> {
      socket.write(`GET /api/v1/session HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${authorization}\r\n\r\n`);
      const [head] = (await once(socket, 'data')) as [Buffer];
      return head.toString().slice(9, 12);
    }

    test('makes way for a new one beyond a hundred, unless it has presented a valid token', async () => {
      const { port, open } = await start();
      const [operators, guessing] = [open(), open()];
      expect(await askOn(operators, `Bearer ${token}`)).toBe('200');
      expect(await askOn(guessing, 'Bearer wrong')).toBe('401');
      const strangers = Array.from({ length: 150 }, () => connect(port, '127.0.0.1').on('error', () => {}));
      onTestFinished(() => [operators, ...strangers].forEach((socket) => socket.destroy()));
      let remaining = strangers.length;
      for (const socket of strangers) socket.on('close', () => (remaining -= 1));
      await eventually('the connections beyond the limit are closed', () => remaining === 99);
      expect(guessing.destroyed).toBe(true);
      expect(await askOn(operators, `Bearer ${token}`)).toBe('200');
      const next = open();
      expect(await askOn(next, `Bearer ${token}`)).toBe('200');
      next.destroy();
    });

    test('makes way for another token, however many connections have presented the same token', async () => {
      const { open } = await start();
      const all = Array.from({ length: 100 }, open);
      onTestFinished(() => all.forEach((socket) => socket.destroy()));
      for (const socket of all) {
        socket.on('error', () => {});
        expect(await askOn(socket, `Bearer ${token}`)).toBe('200');
      }
      for (let i = 0; i < 5; i += 1) {
        const other = open();
        expect(await askOn(other, `Bearer ${otherToken}`)).toBe('200');
        all.push(other);
      }
      await eventually('the connections beyond the limit are closed', () => all.filter(isOpen).length === 100);
      expect(all.slice(0, 10).every(isOpen)).toBe(true);
      expect(all.slice(10, 15).some(isOpen)).toBe(false);
    });

    test('of a token does not make way for new connections of an account, however many tokens that account has', async () => {
      const { open } = await start();
      const openWith = async (bearer: string): Promise<Socket> => {
        const socket = open().on('error', () => {});
        onTestFinished(() => void socket.destroy());
        expect(await askOn(socket, `Bearer ${bearer}`)).toBe('200');
        return socket;
      };
      const own = await Promise.all(Array.from({ length: 10 }, () => openWith(otherToken)));
      const all = await Promise.all(Array.from({ length: 90 }, (_, i) => openWith(`acme-${tenTokens[i % 10]}`)));
      for (let i = 0; i < 10; i += 1) await openWith(`acme-${tenTokens[i]}`);
      await eventually('as many connections are closed as were opened', () => all.filter(isOpen).length === 80);
      expect(own.every(isOpen)).toBe(true);
    });

    test('makes way if each of ten tokens has as many connections as are kept for one token', async () => {
      const { open } = await start();
      const all = Array.from({ length: 100 }, open);
      onTestFinished(() => all.forEach((socket) => socket.destroy()));
      for (const [i, socket] of all.entries()) {
        socket.on('error', () => {});
        expect(await askOn(socket, `Bearer ${tenTokens[i % 10]}`)).toBe('200');
      }
      const other = open();
      onTestFinished(() => void other.destroy());
      expect(await askOn(other, `Bearer ${token}`)).toBe('200');
      await eventually('one connection is closed', () => all.filter(isOpen).length === 99);
    });
  });
});

/** Sends exactly these bytes as a request. Returns the response. */
function exchange(port: number, request: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.write(request);
  return text(socket);
}

function expectEnd(socket: Socket, bytes: Buffer, milliseconds: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error('still open')), milliseconds);
    socket.on('error', () => {}).resume();
    socket.on('close', () => {
      clearTimeout(late);
      resolve();
    });
    socket.write(bytes);
  });
}

import { once } from 'node:events';
import { IncomingMessage } from 'node:http';
import { connect } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createAuthority } from '../support/certificates.ts';
import { Connection, openConnection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { request } from '../support/refused.ts';
import { admin, configOf, operatorsOf, startSidecar } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

const token = 'token-of-ana-token-of-ana-token-of';

const chunks = (count: number): string => '1\r\n \r\n'.repeat(count);

async function open(port: number, isTls: boolean): Promise<Connection> {
  if (!isTls) return openConnection(port);
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  return new Connection(socket);
}

/** Starts a sidecar whose operators' listener uses TLS or not. Returns the ports of the listeners for operators and admin. */
async function start(isTls: boolean): Promise<{ operators: number; admin: number }> {
  const tls = isTls ? { ...createAuthority().issue('IP:127.0.0.1'), clientCa: undefined } : undefined;
  const upstream = await startUpstream();
  const sidecar = await startSidecar(
    configOf(upstream.origin, { operators: operatorsOf([admin('ana', token)], { tls }) }),
  );
  const { addresses } = sidecar.app;
  return { operators: addresses.operators?.port ?? 0, admin: addresses.admin?.port ?? 0 };
}

const chunked = ['Content-Type: application/json', 'Transfer-Encoding: chunked'];

/** Counts the pieces of bodies that Node's parser hands over. */
function countPieces(): () => number {
  const push = vi.spyOn(IncomingMessage.prototype, 'push');
  onTestFinished(() => push.mockRestore());
  return () => push.mock.calls.filter(([piece]) => piece !== null).length;
}

describe.each([
  ['without TLS', false],
  ['with TLS', true],
])('a body to the operators’ listener %s', (_name, isTls) => {
  const post = (...fields: string[]): string =>
    request('POST /api/v1/accounts HTTP/1.1', 'Host: localhost', `Authorization: Bearer ${token}`, ...fields);
  test('may come in 260 chunks of one byte', async () => {
    const { operators } = await start(isTls);
    const client = await open(operators, isTls);
    const body = '{"id":"acme","name":"Acme"}';
    const text = body.replaceAll(/./g, '1\r\n$&\r\n');
    client.send(`${post(...chunked)}${chunks(260 - body.length)}${text}0\r\n\r\n`);
    // The body was read, and then the accounts file was not there.
    await client.untilText('"store_unavailable"');
  });

  test('is refused if it comes in 261, and the rest of what was read is not parsed', async () => {
    const { operators } = await start(isTls);
    const pieces = countPieces();
    const clients = await Promise.all([261, 10_000].map(async () => open(operators, isTls)));
    for (const [i, client] of clients.entries()) client.send(post(...chunked) + chunks(i === 0 ? 261 : 10_000));
    for (const client of clients) {
      const response = await client.untilEnded();
      expect(response).toContain('"code":"malformed_request"');
      expect(response).toContain('too many small pieces');
    }
    expect(pieces()).toBe(2 * 260);
  });

  test('of many pieces is accepted if they are long enough', async () => {
    const { operators } = await start(isTls);
    const client = await open(operators, isTls);
    const piece = `40\r\n${' '.repeat(64)}\r\n`;
    client.send(`${post(...chunked)}${piece.repeat(200)}${chunks(250)}3\r\n{}x\r\n0\r\n\r\n`);
    // All pieces were read, and then the JSON was refused.
    await client.untilText('"malformed_body"');
  });

  test('may also have 260 small pieces if they follow the response, and if it has more, the connection ends without another response', async () => {
    const { operators } = await start(isTls);
    const begin = async (): Promise<Connection> => {
      const client = await open(operators, isTls);
      client.send(request('POST /api/v1/accounts HTTP/1.1', 'Host: localhost', 'Transfer-Encoding: chunked'));
      await client.untilText('unauthorized');
      return client;
    };
    const good = await begin();
    const next = request('GET /api/v1/session HTTP/1.1', 'Host: localhost', `Authorization: Bearer ${token}`);
    good.send(`${chunks(260)}0\r\n\r\n${next}`);
    await good.untilText('"ana"');
    const pieces = countPieces();
    const bad = await begin();
    bad.send(chunks(10_000));
    expect((await bad.untilEnded()).split('HTTP/1.1 ')).toHaveLength(2);
    expect(pieces()).toBe(260);
  });
});

test('a head in 261 TLS records of one byte is refused, and so are as many line ends before a head', async () => {
  const { operators } = await start(true);
  const head = request(
    'GET /api/v1/session HTTP/1.1',
    'Host: localhost',
    `Authorization: Bearer ${token}`,
    `X: ${'x'.repeat(400)}`,
  );
  const sendBytes = async (bytes: string): Promise<Connection> => {
    const client = await open(operators, true);
    // Wait for each write; otherwise, Node would join several in one record.
    for (const byte of bytes) await new Promise((resolve) => void client.socket.write(byte, resolve));
    return client;
  };
  const good = await sendBytes(head.slice(0, 260));
  good.send(head.slice(260));
  await good.untilText('"ana"');
  for (const bytes of [head.slice(0, 261), '\r\n'.repeat(200)]) {
    const bad = await sendBytes(bytes);
    expect(await bad.untilEnded()).toContain('"code":"malformed_request"');
  }
});

test('a body that goes on after its response ends the connection after 64 KiB', async () => {
  const { operators } = await start(false);
  const post = request('POST /api/v1/accounts HTTP/1.1', 'Host: localhost', 'Transfer-Encoding: chunked');
  const block = `1000\r\n${'x'.repeat(4_096)}\r\n`;
  const next = request('GET /api/v1/session HTTP/1.1', 'Host: localhost', `Authorization: Bearer ${token}`);
  for (const [blocks, isKept] of [
    [16, true],
    [17, false],
  ] as const) {
    const client = await openConnection(operators);
    client.send(post);
    await client.untilText('unauthorized');
    client.send(`${block.repeat(blocks)}0\r\n\r\n${next}`);
    if (isKept) await client.untilText('"ana"');
    else expect(await client.untilEnded()).not.toContain('"ana"');
  }
});

test.each([
  ['line ends before a head', [], '\r\n'.repeat(50_000)],
  [
    'extensions of chunks',
    chunked,
    `1;${'x'.repeat(60)}\r\n \r\n`.repeat(200) + `100;${'x'.repeat(4_000)}\r\n${' '.repeat(256)}\r\n`.repeat(40),
  ],
])('%s end the connection after about 64 KiB', async (_name, fields, bytes) => {
  const { operators } = await start(false);
  const client = await openConnection(operators);
  if (fields.length > 0)
    client.send(
      request('POST /api/v1/accounts HTTP/1.1', 'Host: localhost', `Authorization: Bearer ${token}`, ...fields),
    );
  for (let i = 0; i < bytes.length && client.ending === 'open'; i += 8_192) {
    client.send(bytes.slice(i, i + 8_192));
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  expect(await client.untilEnded()).toContain('"code":"malformed_request"');
});

test('a body in many small pieces ends a connection to the admin listener', async () => {
  const { admin: port } = await start(false);
  const pieces = countPieces();
  const client = await openConnection(port);
  client.send(request('POST /drain HTTP/1.1', 'Host: localhost', 'Transfer-Encoding: chunked') + chunks(10_000));
  await client.untilEnded();
  expect(pieces()).toBeLessThanOrEqual(260);
  await eventually('the listener serves others', async () => (await fetch(`http://127.0.0.1:${port}/livez`)).ok);
});

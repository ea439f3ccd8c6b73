import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { compressedResponses } from './compressed.ts';
import { jsonWork } from './json-work.ts';
import { attackedHost, head, visitorsKey, write, type Attack, type Target } from './attack.ts';

const live = `Host: ${attackedHost}`;
const test = 'Host: 127.0.0.1';
const visitor = `Authorization: Bearer ${visitorsKey}`;
const preflight = [live, 'Origin: https://shop.example', 'Access-Control-Request-Method: POST'];
const testCredentials = [test, `key: ${'k'.repeat(32)}`, `iv: ${'i'.repeat(16)}`];
/** The largest body that the test endpoints accept. */
const mostTested = 65_536;

const refused = head('GET /', test);
const slow = head('OPTIONS /pay/silent', ...preflight);
const document = JSON.stringify(Array.from({ length: mostTested / 2 - 1 }, () => 1));
const undecryptable = JSON.stringify({ encrypted_data: '5a'.repeat(16 * 2_000) });

/** Attacks on the resources of docs/resources.md that need no secret key. */
export function attacksOn(target: Target): readonly Attack[] {
  return [
    ...onHeads(target),
    ...onSlots(target),
    ...onBodies(target),
    ...onCpuTime(),
    ...jsonWork(target),
    ...compressedResponses(target),
    ...onAdmin(),
    ...onOperators(),
  ];
}

const merchants = { listener: 'merchants' } as const;
const admin = { listener: 'admin' } as const;
const operators = { listener: 'operators', tls: true } as const;

/** A fraction of a limit, but at least two. */
function part(of: number, by: number): number {
  return Math.max(2, Math.ceil(of / by));
}

/** Connections that hold no request, an incomplete request, or many requests at once. */
function onHeads({ limits: { connections, header, headers } }: Target): readonly Attack[] {
  const longHead = `GET / HTTP/1.1\r\n${`X: ${'x'.repeat(500)}\r\n`.repeat(Math.floor(header / 505) - 1)}`;
  const shortHeads = head('GET /', test, 'a: b').repeat(10);
  const manyFields = head('GET /', test, ...Array.from({ length: headers - 1 }, (_, i) => `f${i}: v`)).repeat(10);
  return [
    { ...merchants, name: 'idle connections', sockets: part(connections, 2), begin: () => {} },
    { ...merchants, name: 'heads that never end', sockets: part(connections, 1), begin: write(longHead) },
    { ...merchants, name: 'pipelined requests', sockets: 16, begin: write(slow + shortHeads) },
    {
      ...merchants,
      name: 'pipelined requests of many fields',
      sockets: part(connections, 1),
      begin: write(manyFields),
    },
    {
      ...merchants,
      name: 'tiny pipelined requests',
      sockets: 32,
      begin: write('GET / HTTP/1.1\r\n\r\n'.repeat(8_000)),
    },
  ];
}

/** Requests that occupy a slot for as long as they can. */
function onSlots({ limits: { connections, inFlight } }: Target): readonly Attack[] {
  return [
    { ...merchants, name: 'preflights', sockets: part(inFlight, 2), begin: write(slow) },
    { ...merchants, name: 'public keys', sockets: inFlight, begin: write(head('GET /pay/silent', live, visitor)) },
    {
      ...merchants,
      name: 'uploads that stall',
      sockets: part(inFlight, 2),
      begin: write(`${head('POST /pay/silent', live, visitor, 'Content-Length: 1000000000')}${'x'.repeat(400_000)}`),
    },
    {
      ...merchants,
      name: 'responses that are not read',
      sockets: part(inFlight, 2),
      reads: false,
      begin: write(head('GET /pay/large', live, visitor)),
    },
    {
      ...merchants,
      name: 'informational responses that are not read',
      sockets: part(inFlight, 8),
      reads: false,
      begin: write(head('GET /pay/hints', live, visitor)),
    },
    {
      ...merchants,
      name: 'refusals that are not read, followed by a body',
      sockets: part(connections, 4),
      reads: false,
      begin: (socket) => refuseAlways(socket, 90),
    },
    {
      ...merchants,
      name: 'WebSockets that are not read',
      sockets: part(inFlight, 4),
      reads: false,
      begin: write(
        head('GET /socket', live, visitor, 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: eHg='),
      ),
    },
    { ...merchants, name: 'clients that leave', sockets: 32, begin: leave },
  ];
}

/** Bodies that stay incomplete. */
function onBodies({ limits: { connections } }: Target): readonly Attack[] {
  return [
    {
      ...merchants,
      name: 'bodies that lack a byte',
      sockets: part(connections, 8),
      begin: write(
        head('POST /api/s2s/aes-encrypt', ...testCredentials, `Content-Length: ${mostTested}`) + document.slice(1),
      ),
    },
    {
      ...merchants,
      name: 'bodies byte by byte',
      sockets: part(connections, 16),
      begin: write(
        head('POST /api/s2s/aes-encrypt', ...testCredentials, 'Transfer-Encoding: chunked') +
          '1\r\nx\r\n'.repeat(8_000),
      ),
    },
  ];
}

/** Requests that cost CPU time: those to the test endpoints, and those with keys that do not exist. */
function onCpuTime(): readonly Attack[] {
  const chunked = write(
    `${head('POST /api/s2s/aes-encrypt', ...testCredentials, 'Transfer-Encoding: chunked')}${'1\r\n1\r\n'.repeat(60_000)}0\r\n\r\n`,
  );
  return [
    { ...merchants, name: 'work on chunks of one byte', sockets: 32, begin: chunked, next: chunked },
    ...[
      ['encrypt', document] as const,
      ['decrypt', undecryptable] as const,
      ['decrypt', `{"encrypted_data":"${'A'.repeat(64_000)}"}`] as const,
    ].map(([endpoint, body]) => {
      const length = `Content-Length: ${body.length}`;
      const asks = write(head(`POST /api/s2s/aes-${endpoint}`, ...testCredentials, length) + body);
      return Object.assign({ name: `work for aes-${endpoint}`, sockets: 16, begin: asks, next: asks }, merchants);
    }),
    {
      ...merchants,
      name: 'pipelined work',
      sockets: 8,
      begin: write(
        (head('POST /api/s2s/aes-encrypt', ...testCredentials, `Content-Length: ${document.length}`) + document).repeat(
          5,
        ),
      ),
    },
    { ...merchants, name: 'guessed keys', sockets: 8, begin: guess, next: guess },
    { ...merchants, name: 'bytes that are not a request', sockets: 4, begin: babble, next: babble },
  ];
}

function onAdmin(): readonly Attack[] {
  return [
    { ...admin, name: 'idle connections to /metrics', sockets: 100, begin: () => {} },
    {
      ...admin,
      name: 'metrics that are not read, followed by many requests',
      sockets: 32,
      reads: false,
      begin: write(head('GET /metrics', test) + head('GET /', test).repeat(2_000)),
    },
    { ...admin, name: 'bodies for /metrics', sockets: 16, begin: write(endlessBody('/metrics')) },
  ];
}

function onOperators(): readonly Attack[] {
  return [
    // More connections than the listener accepts.
    { ...operators, name: 'connections without a token', sockets: 150, begin: () => {} },
    { listener: 'operators', name: 'unfinished TLS handshakes', sockets: 60, begin: write('\x16\x03\x01') },
    {
      ...operators,
      name: 'pipelined requests of operators',
      sockets: 16,
      reads: false,
      begin: write(head('GET /console/', test).repeat(2_000)),
    },
    {
      ...operators,
      name: 'guessed tokens',
      sockets: 2,
      begin: guessToken,
      next: guessToken,
    },
    { ...operators, name: 'bodies for the operators’ API', sockets: 8, begin: write(endlessBody('/api/v1/x')) },
  ];
}

function endlessBody(path: string): string {
  return `${head(`POST ${path}`, test, 'Content-Type: application/json', 'Content-Length: 1000000')}${'x'.repeat(200_000)}`;
}

/**
 * Sends refused requests until their responses fill the buffers of both kernels, so that one response waits in the
 * sidecar. Then sends a request with a body.
 */
function refuseAlways(socket: Socket, batches: number): void {
  if (socket.destroyed) return;
  if (batches === 0) {
    socket.write(`${head('POST /', test, 'Content-Length: 1000000')}${'x'.repeat(200_000)}`);
    return;
  }
  socket.write(refused.repeat(10));
  setTimeout(() => refuseAlways(socket, batches - 1), 100);
}

/** Sends a key that does not exist from an address that was never used before. */
function guess(socket: Socket): void {
  const address = `10.${[...randomBytes(3)].join('.')}`;
  const key = `sk_test_${randomBytes(16).toString('hex')}`;
  socket.write(head('GET /', test, `X-Forwarded-For: ${address}`, `Authorization: Bearer ${key}`));
}

function guessToken(socket: Socket): void {
  const token = randomBytes(16).toString('hex');
  socket.write(head('GET /api/v1/accounts', test, `Authorization: Bearer ${token}`));
}

function babble(socket: Socket): void {
  socket.write(randomBytes(2_000));
}

/** Sends a request, and disconnects just before, while or after it is forwarded. */
function leave(socket: Socket): void {
  socket.write(head('GET /pay/silent', live, visitor));
  setTimeout(() => socket.resetAndDestroy(), Math.random() * 5);
}

import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { describe, expect, test, vi } from 'vitest';
import { startSilentUpstream } from '../support/byte-upstream.ts';
import { openConnection } from '../support/connection.ts';
import { encrypted, envelopeOf, expectPlainRefusal, send, type Sent } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { acme, acmeTest, configOf, encryptionOf, keys, startSidecar } from '../support/sidecar.ts';

const refunds = 'POST /api/v1/refunds';
const ciphertext = encrypted(acmeTest, '{"amount":1000}');
const envelope = envelopeOf(acmeTest, '{"amount":1000}');
const requestBody = 1_000;

type Setting = Parameters<typeof startGateway>[0];

async function expectRefused(line: string, sent: Sent, setting: Setting = {}): Promise<void> {
  const { sidecar, upstream } = await startGateway({ limits: { requestBody }, ...setting });
  expectPlainRefusal(await send(sidecar, line, { key: keys.acme, ...sent }), 'encryption_not_supported');
  expect(upstream.heads()).toBe(0);
}

async function expectPassed(line: string, sent: Sent, setting: Setting = {}): Promise<void> {
  const { sidecar, upstream } = await startGateway({ limits: { requestBody }, ...setting });
  const response = await send(sidecar, line, { key: keys.acme, ...sent });
  expect([response.status, response.body]).toEqual([200, '{"ok":true}']);
  expect(upstream.seen[0]?.body).toBe(Buffer.from(sent.body ?? '').toString('latin1'));
}

test.each([
  ['is not a JSON object', 'Content-Length: 100', 'te'],
  ['is longer than limits.requestBody', `Content-Length: ${requestBody + 1}`, '{'],
])('the body of an encrypting account streams to the upstream if it %s', async (_name, framing, first) => {
  const upstream = await startSilentUpstream();
  const sidecar = await startSidecar(configOf(upstream.origin, { limits: { requestBody } }));
  const client = await openConnection(sidecar.port);
  client.send(`${refunds} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${keys.acme}\r\n${framing}\r\n\r\n${first}`);
  await vi.waitFor(() => expect(upstream.connections[0]?.received).toMatch(new RegExp(`\\r\\n\\r\\n${first}$`)));
});

describe('an encrypting account’s envelope on a route without envelopes is refused and not forwarded', () => {
  test.each<[string, string]>([
    ['in hex', envelope],
    ['in upper-case hex', JSON.stringify({ data: ciphertext.toString('hex').toUpperCase() })],
    ['in base64', JSON.stringify({ data: ciphertext.toString('base64') })],
    ['in base64 with its slashes escaped', `{"data":"${'/'.repeat(64)}"}`.replaceAll('/', '\\/')],
    ['with white space', ` \r\n\t{ "data" : "${ciphertext.toString('hex')}" }\n`],
    ['with other credentials', JSON.stringify({ data: '0'.repeat(32) })],
  ])('%s', async (_, body) => {
    await expectRefused(refunds, { body });
    await expectRefused(refunds, { body, chunked: true });
  });

  test.each<[string, string, Sent]>([
    [
      'with a Content-Encoding that Connection nominates, and that is not forwarded',
      refunds,
      { headers: { 'content-encoding': 'gzip', connection: 'content-encoding' } },
    ],
    ['on a route for public keys', 'POST /api/v1/transactions/initialize', { key: keys.acmePublic }],
    ['with GET', 'GET /api/v1/refunds', {}],
    ['with DELETE', 'DELETE /api/v1/refunds', {}],
    ['with a vendor’s Content-Type', refunds, { headers: { 'content-type': 'application/vnd.x+json' } }],
    ['with the Content-Type of text', refunds, { headers: { 'content-type': 'text/plain' } }],
    ['with the Content-Type of a form', refunds, { headers: { 'content-type': 'multipart/form-data; boundary=x' } }],
    ['with the Content-Encoding identity', refunds, { headers: { 'content-encoding': 'identity' } }],
  ])('%s', (_, line, sent) => expectRefused(line, { ...sent, body: envelope }));

  test('even during the grace period after encryption was enabled', () => {
    const grace = { previous: undefined, until: Date.now() + 60_000 };
    const accounts = [{ ...acme, encryption: { test: encryptionOf(acmeTest, { grace }) } }];
    return expectRefused(refunds, { body: envelope }, { accounts });
  });

  test('in many pieces', async () => {
    const { sidecar, upstream } = await startGateway();
    const pieces = [' ', '\n', '{', ...(envelope.slice(1).match(/.{1,40}/g) ?? [])];
    const response = await new Promise<string>((resolve) => {
      let received = '';
      const socket = connect(sidecar.port, '127.0.0.1').setNoDelay(true).setEncoding('latin1');
      socket.write(`${refunds} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${keys.acme}\r\n`);
      socket.write('Transfer-Encoding: chunked\r\n\r\n');
      // Send each piece in its own turn of the event loop, so that the sidecar reads it separately.
      const next = (): void => {
        const piece = pieces.shift();
        socket.write(piece === undefined ? '0\r\n\r\n' : `${piece.length.toString(16)}\r\n${piece}\r\n`);
        if (piece !== undefined) setImmediate(next);
      };
      next();
      socket.on('data', (data: string) => (received += data)).on('close', () => resolve(received));
    });
    expect(response).toContain('"code":"encryption_not_supported"');
    expect(upstream.heads()).toBe(0);
  });
});

describe('limits.requestBody', () => {
  test.each([
    ['stated', false],
    ['in chunks', true],
  ])(
    'is the longest body in which an envelope is looked for; longer ones stream through (length %s)',
    async (_, chunked) => {
      await expectRefused(refunds, { body: envelope.padEnd(requestBody), chunked });
      await expectPassed(refunds, { body: envelope.padEnd(requestBody + 1), chunked });
      await expectPassed(refunds, { body: envelope.padEnd(50 * requestBody), chunked });
    },
  );
});

describe('a body that is not an envelope is forwarded byte for byte', () => {
  test.each<[string, string | Buffer]>([
    ['JSON', '{ "amount":  1000.00,\r\n "amount": 12345678901234567890 }\n'],
    ['an envelope with a member beside data', '{"data":"00000000000000000000000000000000","x":1}'],
    ['an envelope with data twice', '{"data":"00000000000000000000000000000000","data":""}'],
    ['data that is not a string', '{"data":{"amount":1}}'],
    ['data that is neither hex nor base64', '{"data":"hello, world"}'],
    ['empty data', '{"data":""}'],
    ['data of fifteen bytes', `{"data":"${'0'.repeat(30)}"}`],
    ['data of seventeen bytes', `{"data":"${'0'.repeat(34)}"}`],
    ['Data with a capital letter', `{"Data":"${'0'.repeat(32)}"}`],
    ['data one level down', `{"body":{"data":"${'0'.repeat(32)}"}}`],
    ['an array', `[${envelope}]`],
    ['an envelope cut short', envelope.slice(0, -1)],
    ['an envelope followed by a comma', `${envelope},`],
    ['a form', `data=${ciphertext.toString('hex')}`],
    ['white space', ' \n'],
    ['a byte order mark and an envelope', `\ufeff${envelope}`],
    ['every byte value', Buffer.from(Array.from({ length: 256 }, (_, i) => i))],
    ['a brace and every other byte value', Buffer.from(Array.from({ length: 256 }, (_, i) => (0x7b + i) % 256))],
  ])('%s', async (_, body) => {
    await expectPassed(refunds, { body });
    await expectPassed(refunds, { body, chunked: true });
  });

  test.each<[string, Sent]>([
    ['no body', {}],
    ['a Content-Length of 0', { body: '' }],
    ['an empty chunked body', { chunked: true }],
    ['a compressed envelope', { body: gzipSync(envelope), headers: { 'content-encoding': 'gzip' } }],
    ['an envelope that is said to be compressed', { body: envelope, headers: { 'content-encoding': 'br' } }],
  ])('%s', (_, sent) => expectPassed(refunds, sent));
});

describe('an envelope is forwarded byte for byte', () => {
  test('from an account without encryption', () => expectPassed(refunds, { key: keys.globex, body: envelope }));

  test('from an account that encrypts in the other environment only', () => {
    const accounts = [{ ...acme, encryption: { live: encryptionOf(acmeTest) } }];
    return expectPassed(refunds, { body: envelope }, { accounts });
  });
});

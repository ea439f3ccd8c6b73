import { setTimeout as delay } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { memoryDirectory } from '../../src/accounts/file/directory.ts';
import type { LookupResult } from '../../src/accounts/key-directory.ts';
import { openConnection, parseOnly, type Connection } from '../support/connection.ts';
import { startGateway } from '../support/gateway.ts';
import { scrape } from '../support/metrics.ts';
import { startOverDirectory } from '../support/over-directory.ts';
import { acme, keys, type TestSidecar } from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';

/** The head of a POST, by default of an account that encrypts. */
function head(path: string, fields: readonly string[], key: string = keys.acme, host = 'localhost'): string {
  return [`POST ${path} HTTP/1.1`, `Host: ${host}`, `Authorization: Bearer ${key}`, ...fields, '', ''].join('\r\n');
}

/** Sends a head, and its body when the sidecar has read the head. */
async function sendLate({ port }: TestSidecar, start: string, body: string): Promise<Connection> {
  const client = (await openConnection(port)).send(start);
  await settle();
  return client.send(body);
}

const bodies: readonly (readonly [string, string])[] = [
  ['a letter', 'x'],
  ['a form', 'a=b'],
  ['a list', '[1]'],
  ['white space and a letter', ' x'],
  ['an object', '{"a":1}'],
  ['white space', '  '],
  ['more than limits.requestBody', `{"a":"${'x'.repeat(2_000)}"}`],
];

test.each(bodies)('a plain body that comes after its head reaches the core unchanged: %s', async (_, body) => {
  const { sidecar, upstream } = await startGateway({ limits: { requestBody: 1_000 } });
  const framings = [
    [`Content-Length: ${body.length}`, body],
    ['Transfer-Encoding: chunked', `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`],
  ] as const;
  for (const [field, framed] of framings) {
    // Send two requests on one connection, so that the second one goes to the core on a reused connection.
    const client = await sendLate(sidecar, head('/api/v1/orders', [field]), framed);
    expect(parseOnly(await client.untilText('}')).status).toBe(200);
    client.send(head('/api/v1/orders', [field]));
    await settle();
    await client.send(framed).untilText('}', 2);
  }
  expect(upstream.seen.map((seen) => seen.body)).toEqual([body, body, body, body]);
});

test('each byte of white space before a body is examined once, however the body is split', async () => {
  const { sidecar } = await startGateway();
  const blanks = 900_000;
  const pieces = 300;
  const start = head('/api/v1/orders', [`Content-Length: ${blanks + pieces}`]);
  const client = await sendLate(sidecar, start, ' '.repeat(blanks));
  await vi.waitFor(async () => expect(await scrape(sidecar)).toMatch(/limit_used\{limit="buffered"\} \d{6}/));
  const before = process.cpuUsage();
  for (let i = 1; i < pieces; i += 1) {
    client.send(' ');
    await settle();
  }
  const { user } = process.cpuUsage(before);
  // Examining all white space with each piece takes about 0.9 ms per piece. Examining only the new white space takes about a hundredth of
  // that.
  const perPiece = user / pieces / 1_000;
  // Measure for at least 50 ms, because some kernels count the time of a process in ticks of several milliseconds.
  const white = Buffer.alloc(blanks, ' ');
  const whole = process.cpuUsage();
  let rounds = 0;
  let count = 0;
  for (; process.cpuUsage(whole).user < 50_000; rounds += 1) for (const byte of white) count += byte === 0x20 ? 1 : 0;
  expect(count).toBe(rounds * blanks);
  expect(perPiece).toBeLessThan(process.cpuUsage(whole).user / 1_000 / rounds / 2);
  client.send(' ');
  await client.untilText('}');
});

test('timeouts.request does not count the wait for another look-up of the key after the body is complete', async () => {
  const accounts = memoryDirectory([acme]);
  let lookUps = 0;
  const find = (hash: string): LookupResult | Promise<LookupResult> => {
    lookUps += 1;
    const found = accounts.find(hash);
    return lookUps === 1 ? found : delay(1_500).then(() => found);
  };
  const gateway = await startOverDirectory({ ...accounts, find }, {}, { request: 500 });
  const client = (await openConnection(gateway.port)).send(head('/api/v1/orders', ['Content-Length: 2']));
  await settle();
  const response = parseOnly(await client.send('ok').untilText('request_id'));
  expect(lookUps).toBe(2);
  // Nothing listens at the address of the upstream.
  expect(response.status).toBe(502);
});

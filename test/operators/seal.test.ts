import { createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { settings, openStore, put, storedAccount, storedEncryption } from '../accounts/postgres/fixtures.ts';
import { Connection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { configOf, operatorsOf } from '../support/sidecar.ts';
import { dashboard, startApi, type TestApi } from './api.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const coreToken = 'core-token-of-a-test-0123456789-0123456789';
const core = { name: 'core', role: 'core', account: undefined, hash: sha256Hex(coreToken) } as const;
/** Two tokens of one account, whose id is also the name of an environment. */
const tokensOfOne = ['1', '2'].map((i) => `${coreToken}-of-one-${i}`);
const coresOfOne = tokensOfOne.map((each, i) => ({
  name: `one-${i}`,
  role: 'core' as const,
  account: 'test',
  hash: sha256Hex(each),
}));
const pair = (letter: string) => ({ key: letter.repeat(32), iv: letter.repeat(16) });
const [current, previous] = [pair('c'), pair('p')];

/** The fingerprint of credentials, as merchants compute it. */
function fingerprint({ key, iv }: typeof current): string {
  return createHash('sha256').update(key).update(iv).digest('hex').slice(0, 16);
}

function opened(envelope: string, { key, iv }: typeof current): Buffer {
  const { data } = JSON.parse(envelope) as { data: string };
  const decipher = createDecipheriv('aes-256-cbc', key, iv);
  return Buffer.concat([decipher.update(data, 'hex'), decipher.final()]);
}

interface Sent {
  readonly body?: Buffer | string;
  readonly type?: string;
  /** Sends the body in chunks, without its length. */
  readonly chunked?: true;
  readonly token?: string | undefined;
}

interface Received {
  readonly status: number;
  readonly text: string;
  readonly credentials: string | undefined;
}

/** Asks the sidecar to seal a body, as a core does. */
function seal(
  { url }: TestApi,
  place: string,
  { body = '{"event":"paid"}', type, chunked, token = coreToken }: Sent = {},
): Promise<Received> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${token}`,
      ...(type !== undefined && { 'content-type': type }),
      ...(!chunked && { 'content-length': Buffer.byteLength(body) }),
    };
    const [account = '', environment = ''] = place.split(' ');
    const sent = request(`${url}/accounts/${account}/encryption/${environment}/seal`, { method: 'POST', headers });
    sent.on('error', reject);
    sent.on('response', (res) => {
      const credentials = res.headers['envelope-credentials'] as string | undefined;
      text(res).then((read) => resolve({ status: res.statusCode ?? 0, text: read, credentials }), reject);
    });
    if (chunked) sent.write(body.slice(0, 10));
    sent.end(chunked ? body.slice(10) : body);
  });
}

/** Starts a sidecar with accounts in every state of encryption in test. `acme` encrypts. */
async function start(now: () => number = Date.now, limits: Partial<Config['limits']> = {}): Promise<TestApi> {
  const base = configOf('http://127.0.0.1:1').limits;
  const api = await startApi(
    { operators: operatorsOf([dashboard, core, ...coresOfOne]), limits: { ...base, ...limits } },
    now,
  );
  const until = new Date(now() + 60_000).toISOString();
  const test = {
    acme: { enabled: true, ...current },
    replacing: { enabled: true, ...current, previous: { ...previous, until } },
    beginning: { enabled: true, ...current, previous: { until } },
    ending: { enabled: false, previous: { ...previous, until } },
    base64: { enabled: true, ...current, encoding: 'base64' },
  };
  const accounts = Object.entries(test).map(([id, encryption]) => ({ id, name: id, encryption: { test: encryption } }));
  const both = { test: { enabled: true, ...current }, live: { enabled: true, ...previous } };
  const more = [
    { id: 'both', name: 'Both', encryption: both },
    { id: 'test', name: 'Test', encryption: both },
    { id: 'plain', name: 'Plain' },
  ];
  api.folder.write({ 'accounts.yaml': { accounts: [...accounts, ...more] } });
  await eventually('the accounts are in force', async () => (await seal(api, 'plain test')).status === 409);
  return api;
}

describe('a body is sealed for an account', () => {
  test.each([
    ['application/json', '{"event":"paid"}'],
    ['text/plain', 'paid'],
    ['application/xml; charset=utf-8', '<paid/>'],
    ['application/x-www-form-urlencoded', 'event=paid'],
    [undefined, 'paid'],
    ['application/octet-stream', randomBytes(200_000)],
  ])('byte for byte, of the type %s', async (type, body) => {
    const api = await start();
    for (const chunked of [undefined, true] as const) {
      const answer = await seal(api, 'acme test', { body, ...(type && { type }), ...(chunked && { chunked }) });
      expect(answer).toMatchObject({ status: 200, credentials: fingerprint(current) });
      expect(opened(answer.text, current)).toEqual(Buffer.from(body));
    }
  });

  test('in the encoding of the account', async () => {
    const { text } = await seal(await start(), 'base64 test', { body: 'paid' });
    const { data } = JSON.parse(text) as { data: string };
    expect(opened(JSON.stringify({ data: Buffer.from(data, 'base64').toString('hex') }), current).toString()).toBe(
      'paid',
    );
  });

  test('with the previous credentials until a grace ends', async () => {
    let now = Date.now();
    const api = await start(() => now);
    const end = now + 60_000;
    for (const [at, expected] of [
      [end - 1, previous],
      [end, current],
    ] as const) {
      now = at;
      const { text, credentials } = await seal(api, 'replacing test', { body: 'paid' });
      expect([credentials, opened(text, expected).toString()]).toEqual([fingerprint(expected), 'paid']);
    }
  });

  test('with the previous credentials while encryption is disabled with a grace, and not afterwards', async () => {
    let now = Date.now();
    const api = await start(() => now);
    expect(await seal(api, 'ending test')).toMatchObject({ status: 200, credentials: fingerprint(previous) });
    now += 60_000;
    expect((await seal(api, 'ending test')).text).toContain('"code":"encryption_disabled"');
  });

  test('but not if the account gets plaintext: without encryption, or in a grace for plaintext', async () => {
    let now = Date.now();
    const api = await start(() => now);
    for (const place of ['plain test', 'acme live', 'beginning test']) {
      const { status, text } = await seal(api, place);
      expect([place, status]).toEqual([place, 409]);
      expect(text).toContain('"code":"encryption_disabled"');
    }
    now += 60_000;
    expect((await seal(api, 'beginning test')).status).toBe(200);
  });

  test('only if there is a body, and the account and the environment exist', async () => {
    const api = await start();
    expect((await seal(api, 'none test')).text).toContain('"code":"account_unknown"');
    expect((await seal(api, 'acme prod')).text).toContain('"code":"invalid_request"');
    for (const chunked of [undefined, true] as const) {
      const { text } = await seal(api, 'acme test', { body: '', ...(chunked && { chunked }) });
      expect(text).toContain('"code":"invalid_request"');
    }
  });
});

test('a body of the length `requestBody` is sealed, and a longer one is refused', async () => {
  const api = await start(undefined, { requestBody: 1_000 });
  for (const chunked of [{}, { chunked: true } as const]) {
    expect((await seal(api, 'acme test', { body: Buffer.alloc(1_000), ...chunked })).status).toBe(200);
    const { status, text } = await seal(api, 'acme test', { body: Buffer.alloc(1_001), ...chunked });
    expect([status, text]).toEqual([413, expect.stringContaining('"code":"body_too_large"')]);
  }
});

test('after a body that is refused before its end, the next request on the connection is carried out', async () => {
  const { url } = await start(undefined, { requestBody: 1_000 });
  const { hostname, port } = new URL(url);
  const client = new Connection(connect(Number(port), hostname));
  const head = (line: string): string =>
    `${line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${coreToken}\r\n`;
  const seals = `/api/v1/accounts/acme/encryption/test/seal`;
  client.send(`${head(`POST ${seals}`)}Content-Length: 300000\r\n\r\n${'x'.repeat(300_000)}`);
  expect(await client.untilText('"request_id"')).toContain('"code":"body_too_large"');
  client.send(`${head(`POST ${seals}`)}Content-Length: 2\r\n\r\n{}`);
  await client.untilText('{"data":"');
});

describe('a body whose end does not arrive', () => {
  /** Sends 800 of 900 bytes. */
  function begin({ url }: TestApi, environment: string, account = 'acme', token = coreToken): ClientRequest {
    const unfinished = request(`${url}/accounts/${account}/encryption/${environment}/seal`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-length': 900 },
    });
    unfinished.on('error', () => {});
    unfinished.write(Buffer.alloc(800));
    onTestFinished(() => void unfinished.destroy());
    return unfinished;
  }

  test('leaves the rest of half the bytes to others of its environment, and its own bytes are released', async () => {
    const api = await start(undefined, { requestBody: 1_000, buffered: 16_000 });
    const unfinished = begin(api, 'test');
    const statusOf = async (length: number): Promise<number> =>
      (await seal(api, 'acme test', { body: Buffer.alloc(length) })).status;
    await eventually('the bytes of the body are held', async () => (await statusOf(201)) === 503);
    expect(await statusOf(200)).toBe(200);
    unfinished.destroy();
    await eventually('the bytes are released', async () => (await statusOf(1_000)) === 200);
    for (let i = 0; i < 20; i += 1) expect(await statusOf(1_000)).toBe(200);
  });

  test('in test leaves half the bytes to live', async () => {
    const api = await start(undefined, { requestBody: 1_000, buffered: 16_000 });
    begin(api, 'test');
    const statusOf = async (environment: string, length: number): Promise<number> =>
      (await seal(api, `both ${environment}`, { body: Buffer.alloc(length) })).status;
    await eventually('the bytes of the body are held', async () => (await statusOf('test', 201)) === 503);
    expect(await statusOf('live', 1_000)).toBe(200);
  });

  test('in live leaves half the bytes to test and to other accounts than its token’s, however many tokens that account has', async () => {
    const api = await start(undefined, { requestBody: 1_000, buffered: 16_000 });
    begin(api, 'live', 'test', tokensOfOne[0]);
    const statusOf = async (place: string, length: number, token?: string): Promise<number> =>
      (await seal(api, place, { body: Buffer.alloc(length), token })).status;
    await eventually(
      'the bytes of the body are held',
      async () => (await statusOf('test live', 201, tokensOfOne[1])) === 503,
    );
    expect(await statusOf('test live', 200, tokensOfOne[1])).toBe(200);
    expect(await statusOf('both live', 1_000)).toBe(200);
    expect(await statusOf('both test', 1_000)).toBe(200);
  });

  test('is refused after five seconds', { timeout: 20_000 }, async () => {
    const api = await start();
    const [response] = (await once(begin(api, 'test'), 'response')) as [IncomingMessage];
    expect([response.statusCode, await text(response)]).toEqual([
      408,
      // The limit of 10 seconds for any request has another detail.
      expect.stringMatching(/The body took too long to arrive.*"code":"request_timeout"/),
    ]);
  });
});

test('a client that disconnects before its body is complete causes no error', async () => {
  const api = await start();
  const leaving = request(`${api.url}/accounts/acme/encryption/test/seal`, {
    method: 'POST',
    headers: { authorization: `Bearer ${coreToken}`, 'content-length': 900 },
  });
  leaving.on('error', () => {});
  leaving.write(Buffer.alloc(800));
  await eventually('the connection of the client is open', () => leaving.socket?.connecting === false);
  await new Promise((resolve) => setTimeout(resolve, 100));
  leaving.destroy();
  const line = { msg: 'operator request', operation: 'seal_body', status: 499, level: 'info' };
  await eventually('the request is logged', () => api.sidecar.log.some(({ status }) => status === 499));
  expect(api.sidecar.log.find(({ status }) => status === 499)).toMatchObject(line);
  expect(api.sidecar.log.filter(({ level }) => level === 'error')).toEqual([]);
});

describeWithPostgres('with accounts in a database', () => {
  const postgres = usePostgres();

  test('a body is sealed with the stored credentials', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme', { encryption: { test: storedEncryption('acme', 'test') } }));
    const store = settings(url, { cache: 10, staleFor: 60_000 });
    const api = await startApi({ operators: operatorsOf([dashboard, core]), store });
    const answer = await seal(api, 'acme test');
    expect(answer).toMatchObject({ status: 200, credentials: expect.stringMatching(/^[0-9a-f]{16}$/) as string });
    expect(answer.text).toMatch(/^\{"data":"[0-9a-f]{64}"\}$/);
    expect((await seal(api, 'acme live')).status).toBe(409);
  });
});

import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { encrypted, envelopeOf, send, type Sent } from '../support/client.ts';
import { openConnection } from '../support/connection.ts';
import { describeUnless } from '../support/describe-unless.ts';
import { eventually } from '../support/eventually.ts';
import { acmeWith, startGateway } from '../support/gateway.ts';
import { scrape } from '../support/metrics.ts';
import {
  acmeLive,
  acmeTest,
  codecOf,
  configOf,
  encryptionOf,
  keys,
  route,
  routes,
  targetOf,
  type TestSidecar,
} from '../support/sidecar.ts';
import type { Respond } from '../support/upstream.ts';
import { changes, samplesOf, seriesOf, untilSample, type Samples } from './samples.ts';

/** The changes of the series that count something: all except the sums and buckets of measurements and the use of limits. */
function counted(before: Samples, after: Samples): Record<string, number> {
  return Object.fromEntries(
    Object.entries(changes(before, after)).filter(([series]) => !/_sum\b|_bucket\b|_limit_used\b/.test(series)),
  );
}

/** Sends one request, waits until the series `counts` has counted it, and returns all changes that it caused. */
async function changedBy(sidecar: TestSidecar, line: string, sent: Sent, counts: string): Promise<object> {
  const before = await samplesOf(sidecar);
  await send(sidecar, line, sent);
  await untilSample(sidecar, counts, (before.values.get(counts) ?? 0) + 1);
  return counted(before, await samplesOf(sidecar));
}

const requests = (environment: string, method: string, route: string, status: number): string =>
  `envelope_sidecar_requests_total{environment="${environment}",method="${method}",route="${route}",status="${status}"}`;
const duration = (environment: string, route: string): string =>
  `envelope_sidecar_request_duration_seconds_count{environment="${environment}",route="${route}"}`;
const upstreamDuration = (route: string): string =>
  `envelope_sidecar_upstream_duration_seconds_count{environment="test",route="${route}"}`;
const overhead = (environment: string, route: string): string =>
  `envelope_sidecar_overhead_duration_seconds_count{environment="${environment}",route="${route}"}`;
/** The changes that each request with a response causes. */
const timed = (environment: string, route: string): object => ({
  [duration(environment, route)]: 1,
  [overhead(environment, route)]: 1,
});
const refusals = (environment: string, code: string): string =>
  `envelope_sidecar_refusals_total{code="${code}",environment="${environment}"}`;
const envelopes = (operation: string, outcome: string): string =>
  `envelope_sidecar_envelopes_total{environment="test",operation="${operation}",outcome="${outcome}"}`;
const envelopeDuration = (operation: string): string =>
  `envelope_sidecar_envelope_duration_seconds_count{operation="${operation}"}`;
const s2s = '/api/s2s/*';

test('every metric is exposed from the start, with its type', async () => {
  const { sidecar } = await startGateway();
  const { declared } = await samplesOf(sidecar);
  expect(Object.fromEntries([...declared].map(([name, { type }]) => [name, type]))).toMatchObject({
    envelope_sidecar_requests_total: 'counter',
    envelope_sidecar_request_duration_seconds: 'histogram',
    envelope_sidecar_upstream_duration_seconds: 'histogram',
    envelope_sidecar_overhead_duration_seconds: 'histogram',
    envelope_sidecar_requests_in_flight: 'gauge',
    envelope_sidecar_limit: 'gauge',
    envelope_sidecar_limit_used: 'gauge',
    envelope_sidecar_reported_total: 'counter',
    envelope_sidecar_refusals_total: 'counter',
    envelope_sidecar_envelopes_total: 'counter',
    envelope_sidecar_envelope_duration_seconds: 'histogram',
    envelope_sidecar_config_reloads_total: 'counter',
    envelope_sidecar_config_last_reload_success_timestamp_seconds: 'gauge',
    envelope_sidecar_config_last_reload_successful: 'gauge',
    envelope_sidecar_accounts: 'gauge',
    envelope_sidecar_api_keys: 'gauge',
    envelope_sidecar_credentials: 'gauge',
    envelope_sidecar_build_info: 'gauge',
  });
});

describe('one request is counted once', () => {
  const unlisted = ['test', 'unlisted'] as const;
  const charge = 'POST /api/s2s/charge';
  const noJson = JSON.stringify({ data: encrypted(acmeTest, 'no JSON').toString('hex') });
  const unsealable: Respond = (_seen, res) => res.writeHead(200, { 'Content-Encoding': 'unknown' }).end('x');
  type Setting = NonNullable<Parameters<typeof startGateway>[0]>;

  test.each<
    [why: string, line: string, sent: Sent, place: readonly [string, string], status: number, more: object, Setting?]
  >([
    [
      'it is passed through',
      'GET /api/v1/x',
      { key: keys.globex },
      unlisted,
      200,
      { [upstreamDuration('unlisted')]: 1 },
    ],
    [
      'it has an envelope',
      charge,
      { key: keys.acme, body: envelopeOf(acmeTest, '{"amount":1}') },
      ['test', s2s],
      200,
      {
        [upstreamDuration(s2s)]: 1,
        [envelopes('open', 'ok')]: 1,
        [envelopes('seal', 'ok')]: 1,
        [envelopeDuration('open')]: 1,
        [envelopeDuration('seal')]: 1,
      },
    ],
    [
      'its envelope does not open',
      charge,
      { key: keys.acme, body: noJson },
      ['test', s2s],
      400,
      {
        'envelope_sidecar_accounts_failing_ratio{environment="test"}': 1,
        [refusals('test', 'decryption_failed')]: 1,
        [envelopes('open', 'failed')]: 1,
        [envelopeDuration('open')]: 1,
      },
    ],
    [
      'its response cannot be sealed',
      'GET /api/s2s/x',
      { key: keys.acme },
      ['test', s2s],
      502,
      {
        [refusals('test', 'sealing_failed')]: 1,
        [envelopes('seal', 'failed')]: 1,
        [envelopeDuration('seal')]: 1,
      },
      { respond: unsealable },
    ],
    ['its key is refused', 'DELETE /x', {}, unlisted, 401, { [refusals('test', 'missing_api_key')]: 1 }],
    [
      'its path has no route',
      'GET //x',
      {},
      ['none', 'none'],
      400,
      { [refusals('none', 'ambiguous_request')]: 1 },
      { serves: 'both' },
    ],
    [
      'its host has no environment',
      'GET /x',
      {},
      ['none', 'none'],
      421,
      { [refusals('none', 'unknown_host')]: 1 },
      { serves: 'both' },
    ],
    [
      'it is for a test endpoint',
      'POST /api/s2s/aes-encrypt',
      { headers: acmeTest, body: '{}' },
      ['test', 'none'],
      200,
      {},
    ],
    [
      'its upstream cannot be reached',
      'GET /x',
      { key: keys.globex },
      unlisted,
      502,
      { [upstreamDuration('unlisted')]: 1, [refusals('test', 'upstream_unavailable')]: 1 },
      { environments: [{ name: 'test', hosts: [], upstream: targetOf('http://127.0.0.1:1') }] },
    ],
  ])('if %s', async (_, line, sent, [environment, route], status, more, setting = {}) => {
    const { sidecar } = await startGateway(setting);
    const counts = requests(environment, line.split(' ')[0] ?? '', route, status);
    expect(await changedBy(sidecar, line, sent, counts)).toEqual({
      [counts]: 1,
      ...timed(environment, route),
      ...more,
    });
  });

  test('during a grace, by the credentials of the response', async () => {
    const grace = { previous: codecOf(acmeLive), until: Infinity };
    const { sidecar } = await startGateway({ accounts: [acmeWith(encryptionOf(acmeTest, { grace }))] });
    const answeredWith = (credentials: string): string =>
      `envelope_sidecar_grace_requests_total{credentials="${credentials}",environment="test"}`;
    for (const [label, credentials] of [
      ['current', acmeTest],
      ['previous', acmeLive],
    ] as const) {
      const counts = requests('test', 'POST', s2s, 200);
      const sent = { key: keys.acme, body: envelopeOf(credentials, '{"amount":1}') };
      expect(await changedBy(sidecar, 'POST /api/s2s/charge', sent, counts)).toMatchObject({
        [answeredWith(label)]: 1,
        [envelopes('open', 'ok')]: 1,
        [envelopes('seal', 'ok')]: 1,
      });
    }
  });

  test('if it is not HTTP', async () => {
    const { sidecar } = await startGateway();
    const before = await samplesOf(sidecar);
    await (await openConnection(sidecar.port)).send('no HTTP\r\n\r\n').untilEnded();
    expect(counted(before, await samplesOf(sidecar))).toEqual({
      [requests('none', 'other', 'none', 400)]: 1,
      ...timed('none', 'none'),
      'envelope_sidecar_connections_closed_total{reason="malformed"}': 1,
      [refusals('none', 'malformed_request')]: 1,
    });
  });

  test('if its upstream takes too long, and the time is observed in the duration', async () => {
    const { sidecar } = await startGateway({ respond: () => {}, timeouts: { upstream: 50 } });
    const counts = requests('test', 'GET', 'unlisted', 504);
    const before = await samplesOf(sidecar);
    expect(await changedBy(sidecar, 'GET /x', { key: keys.globex }, counts)).toEqual({
      [counts]: 1,
      ...timed('test', 'unlisted'),
      [upstreamDuration('unlisted')]: 1,
      [refusals('test', 'upstream_timeout')]: 1,
    });
    const sum = 'envelope_sidecar_upstream_duration_seconds_sum{environment="test",route="unlisted"}';
    expect(changes(before, await samplesOf(sidecar))[sum]).toBeGreaterThanOrEqual(0.05);
  });

  test('as 499 if its client disconnects', async () => {
    const { sidecar, upstream } = await startGateway({ respond: () => {} });
    const client = await openConnection(sidecar.port);
    client.send(`GET /x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.globex}\r\n\r\n`);
    await eventually('the upstream has the request', () => upstream.heads() === 1);
    client.socket.destroy();
    await untilSample(sidecar, requests('test', 'GET', 'unlisted', 499), 1);
    expect((await seriesOf(sidecar)).filter((series) => series.includes('refusals'))).toEqual([]);
  });
});

describe('the overhead', () => {
  /** The overhead of one request, in seconds, and its whole duration. */
  async function measured(sidecar: TestSidecar, route: string): Promise<{ overhead: number; whole: number }> {
    await untilSample(sidecar, overhead('test', route), 1);
    const { values } = await samplesOf(sidecar);
    const sum = (name: string): number =>
      values.get(`envelope_sidecar_${name}_duration_seconds_sum{environment="test",route="${route}"}`) ?? NaN;
    return { overhead: sum('overhead'), whole: sum('request') };
  }
  const wait = 300;

  test.each([
    ['sealed', 'GET /api/s2s/x', keys.acme, s2s],
    ['plain', 'GET /x', keys.globex, 'unlisted'],
  ])('excludes the wait for the upstream: %s', async (_, line, key, route) => {
    const { sidecar } = await startGateway({ respond: (_seen, res) => setTimeout(() => res.end('{}'), wait) });
    await send(sidecar, line, { key });
    const { overhead: own, whole } = await measured(sidecar, route);
    expect(whole).toBeGreaterThan(wait / 1_000);
    expect(own).toBeGreaterThan(0);
    expect(own).toBeLessThan(whole - wait / 1_000 + 0.01);
  });

  test.each([
    ['opened', '/api/s2s/x', keys.acme, envelopeOf(acmeTest, '{}'), s2s],
    ['passed through', '/x', keys.globex, '{}', 'unlisted'],
    ['looked at, then passed through', '/x', keys.acme, '{}', 'unlisted'],
    ['that is refused', '/api/s2s/x', keys.acme, '{}', s2s],
  ])('excludes the wait for the body of the client: %s', async (_, path, key, body, route) => {
    const { sidecar } = await startGateway();
    const client = await openConnection(sidecar.port);
    client.send(
      `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n` +
        `Connection: close\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 1)}`,
    );
    await new Promise((resolve) => void setTimeout(resolve, wait));
    await client.send(body.slice(1)).untilEnded();
    const { overhead: own, whole } = await measured(sidecar, route);
    expect(whole).toBeGreaterThan((wait - 50) / 1_000);
    expect(own).toBeGreaterThan(0);
    expect(own).toBeLessThan(whole - (wait - 50) / 1_000 + 0.01);
  });

  test.each([
    ['the upstream does not respond', 'GET /x', { respond: () => {}, timeouts: { upstream: wait } }],
    ['the body does not arrive', 'POST /api/s2s/x', { timeouts: { request: wait } }],
  ])('excludes a wait that ends with a timeout: %s', async (_, line, setting) => {
    const { sidecar } = await startGateway(setting);
    const client = await openConnection(sidecar.port);
    const body = line.startsWith('POST') ? 'Content-Length: 10\r\n' : '';
    client.send(
      `${line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.acme}\r\nConnection: close\r\n${body}\r\n`,
    );
    await client.untilEnded();
    const { overhead: own, whole } = await measured(sidecar, body === '' ? 'unlisted' : s2s);
    expect(whole).toBeGreaterThanOrEqual(wait / 1_000);
    expect(own).toBeLessThan(whole - wait / 1_000 + 0.01);
  });
});

test('the metrics show each limit and its use', async () => {
  const responses: ServerResponse[] = [];
  const limits = { connections: 100, inFlight: 10, buffered: 1_048_576 };
  const { sidecar } = await startGateway({ respond: (_seen, res) => responses.push(res), limits });
  const used = (limit: string): string => `envelope_sidecar_limit_used{limit="${limit}"}`;
  const { values } = await samplesOf(sidecar);
  const of = (limit: string): number | undefined => values.get(`envelope_sidecar_limit{limit="${limit}"}`);
  expect([of('connections'), of('in_flight'), of('buffered')]).toEqual([100, 10, 1_048_576]);
  expect([values.get(used('in_flight')), values.get(used('buffered'))]).toEqual([0, 0]);

  const body = envelopeOf(acmeTest, JSON.stringify('x'.repeat(1_000)));
  const sent = send(sidecar, 'POST /api/s2s/x', { key: keys.acme, body });
  await eventually('the upstream has one request', () => responses.length === 1);
  const during = await samplesOf(sidecar);
  expect(during.values.get(used('connections'))).toBe(1);
  expect(during.values.get(used('in_flight'))).toBe(1);
  expect(during.values.get(used('buffered'))).toBe(body.length);
  responses[0]?.end();
  await sent;
  await untilSample(sidecar, used('in_flight'), 0);
  await untilSample(sidecar, used('buffered'), 0);
});

test('a request is in flight until its response is complete', async () => {
  const responses: ServerResponse[] = [];
  const { sidecar } = await startGateway({ respond: (_seen, res) => responses.push(res) });
  const inFlight = 'envelope_sidecar_requests_in_flight';
  await untilSample(sidecar, inFlight, 0);
  const sent = [1, 2].map(() => send(sidecar, 'GET /x', { key: keys.globex }));
  await eventually('the upstream has two requests', () => responses.length === 2);
  await untilSample(sidecar, inFlight, 2);
  responses[0]?.end();
  await untilSample(sidecar, inFlight, 1);
  responses[1]?.end();
  await Promise.all(sent);
  await untilSample(sidecar, inFlight, 0);
});

test('an unusual method is counted as other', async () => {
  const { sidecar } = await startGateway();
  await send(sidecar, 'PROPFIND /x', { key: keys.globex });
  await untilSample(sidecar, requests('test', 'other', 'unlisted', 200), 1);
});

test('a route is labelled with its configured pattern, whatever the request is', async () => {
  const { sidecar } = await startGateway({ routes: [...routes, route('/Orders/:id')] });
  for (const path of ['/Orders/1', '/orders/2', '/ORDERS/3/']) await send(sidecar, `GET ${path}`, { key: keys.globex });
  await untilSample(sidecar, requests('test', 'GET', '/Orders/:id', 200), 3);
});

describe('reloads', () => {
  const reloads = (file: string, outcome: string): string =>
    `envelope_sidecar_config_reloads_total{file="${file}",outcome="${outcome}"}`;
  const lastSuccess = (file: string): string =>
    `envelope_sidecar_config_last_reload_success_timestamp_seconds{file="${file}"}`;
  const successful = (file: string): string => `envelope_sidecar_config_last_reload_successful{file="${file}"}`;
  const seriesOfFile = (file: string): string[] => [
    reloads(file, 'ok'),
    reloads(file, 'failed'),
    lastSuccess(file),
    successful(file),
  ];

  test('are counted by file and outcome; the last outcome is exposed, and only success changes the time', async () => {
    let now = 1_000_000;
    const { sidecar } = await startGateway({ clock: () => now });
    const counted = async (file: string): Promise<unknown> => {
      const { values } = await samplesOf(sidecar);
      return seriesOfFile(file).map((series) => values.get(series));
    };
    // The first files that the process loads do not count as reloads.
    expect([await counted('sidecar'), await counted('accounts')]).toEqual([
      [0, 0, 1_000, 1],
      [0, 0, 1_000, 1],
    ]);

    now = 2_000_000;
    const problems = [{ file: 'sidecar.yaml', line: 1, column: 1, path: '.', message: 'the file is empty' }];
    sidecar.app.reload({
      sidecar: { ok: false, problems },
      accounts: { ok: true, value: [], warnings: [] },
      files: new Map(),
      digests: {},
    });
    expect([await counted('sidecar'), await counted('accounts')]).toEqual([
      [0, 1, 1_000, 0],
      [1, 0, 2_000, 1],
    ]);

    const { accounts: _accounts, ...settings } = configOf('http://127.0.0.1:9');
    sidecar.app.reload({
      sidecar: { ok: true, value: settings, warnings: [] },
      accounts: undefined,
      files: new Map(),
      digests: {},
    });
    expect([await counted('sidecar'), await counted('accounts')]).toEqual([
      [1, 1, 2_000, 1],
      [1, 0, undefined, undefined],
    ]);
  });
});

test('accounts, API keys and credentials are counted at each scrape, with every combination of labels', async () => {
  const { sidecar } = await startGateway({ clock: () => 0 });
  const series = await seriesOf(sidecar);
  const gauges = series.filter((each) => /^envelope_sidecar_(?:accounts|api_keys|credentials)\{/.test(each));
  expect(gauges).toHaveLength(4 + 8 + 4);
  const { values } = await samplesOf(sidecar);
  const of = (each: string): number | undefined => values.get(`envelope_sidecar_${each}`);
  expect(of('accounts{encryption="both"}')).toBe(1);
  expect(of('accounts{encryption="none"}')).toBe(1);
  expect(of('api_keys{environment="test",kind="secret",rotation="current"}')).toBe(2);
  expect(of('api_keys{environment="test",kind="public",rotation="current"}')).toBe(2);
  expect(of('api_keys{environment="live",kind="secret",rotation="current"}')).toBe(1);
  expect(of('credentials{environment="live",rotation="current"}')).toBe(1);
});

test('rotation becomes due as time passes', async () => {
  let now = 0;
  const { sidecar } = await startGateway({ clock: () => now });
  now = 180 * 86_400_000;
  const { values } = await samplesOf(sidecar);
  const key = 'envelope_sidecar_api_keys{environment="live",kind="secret",rotation=';
  expect([values.get(`${key}"current"}`), values.get(`${key}"due"}`)]).toEqual([0, 1]);
});

test('the version of the build is exposed', async () => {
  const { sidecar } = await startGateway();
  const { values } = await samplesOf(sidecar);
  expect(values.get(`envelope_sidecar_build_info{node="${process.version}",version="0.0.0"}`)).toBe(1);
});

test('the buckets resolve 100 µs for envelopes and 500 µs for requests', async () => {
  const { sidecar } = await startGateway();
  await send(sidecar, 'POST /api/s2s/charge', { key: keys.acme, body: envelopeOf(acmeTest, '1') });
  await untilSample(sidecar, requests('test', 'POST', s2s, 200), 1);
  const exposition = await scrape(sidecar);
  const buckets = (name: string): number[] => [
    ...new Set(
      [...exposition.matchAll(new RegExp(`^${name}_bucket\\{le="([\\d.e-]+)"`, 'gm'))].map(([, le]) => Number(le)),
    ),
  ];
  const envelope = buckets('envelope_sidecar_envelope_duration_seconds');
  expect(envelope.filter((le) => le <= 0.0002)).toEqual([0.00001, 0.000025, 0.00005, 0.0001]);
  for (const name of ['envelope_sidecar_request_duration_seconds', 'envelope_sidecar_upstream_duration_seconds']) {
    expect(buckets(name).slice(0, 3)).toEqual([0.0005, 0.001, 0.0025]);
    // The longest wait for an upstream is 30 s by default.
    expect(buckets(name).at(-1)).toBe(30);
  }
});

test('1,000 odd paths, methods, hosts and keys add no series', async () => {
  const { sidecar } = await startGateway({ serves: 'both', limits: { failedKeys: { attempts: 1e6, window: 60_000 } } });
  const methods = ['GET', 'POST', 'PROPFIND', 'M-SEARCH', 'REPORT', 'UNLINK', 'PURGE', 'TRACE', 'QUERY'];
  const known = ['sandbox.pay.example', 'api.pay.example'];
  const odd = (i: number): string => randomBytes(1 + (i % 40)).toString('base64url');
  async function traffic(rounds: number): Promise<void> {
    for (let i = 0; i < rounds; i += 1) {
      for (const method of methods) {
        const host = i % 3 === 0 ? `${odd(i)}.example` : `${known[i % 2]}:${1 + (i % 60_000)}`;
        const key = i % 5 === 0 ? keys.globex : `${i % 2 === 0 ? 'sk' : 'pk'}_test_${odd(39)}`;
        const path = ['', '/api/s2s', '//', '/api/v1/transactions/initialize'][i % 4];
        await send(sidecar, `${method} ${path}/${odd(i)}?${odd(i)}=${odd(i)}`, { key, headers: { host } });
      }
    }
  }
  // Within 60 rounds, every kind of request occurs.
  await traffic(60);
  const before = await seriesOf(sidecar);
  await traffic(115);
  await untilSample(sidecar, 'envelope_sidecar_requests_in_flight', 0);
  expect(await seriesOf(sidecar)).toEqual(before);
  expect(before.length).toBeGreaterThan(20);
}, 60_000);

const missingPromtool = spawnSync('promtool', ['--version']).error === undefined ? undefined : 'there is no promtool';

describeUnless(missingPromtool, 'promtool', () => {
  test('accepts the metrics', async () => {
    const { sidecar } = await startGateway();
    await send(sidecar, 'POST /api/s2s/charge', { key: keys.acme, body: envelopeOf(acmeTest, '1') });
    await untilSample(sidecar, requests('test', 'POST', s2s, 200), 1);
    const exposition = await scrape(sidecar);
    // Node's own metrics show that the page is not empty.
    expect(exposition).toMatch(/^nodejs_eventloop_lag_seconds /m);
    expect(execFileSync('promtool', ['check', 'metrics'], { input: exposition, encoding: 'utf8' })).toBe('');
  });
});

test('a scrape by another client than the merchants does not change the metrics of traffic', async () => {
  const { sidecar } = await startGateway();
  const before = await samplesOf(sidecar);
  for (let i = 0; i < 3; i += 1) await scrape(sidecar);
  expect(counted(before, await samplesOf(sidecar))).toEqual({});
});

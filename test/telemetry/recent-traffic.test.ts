import { describe, expect, test, vi } from 'vitest';
import type { RefusalCode } from '../../src/errors.ts';
import type { AccessLine } from '../../src/telemetry/access-log.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { RecentTraffic } from '../../src/telemetry/recent-traffic.ts';
import { envelopeOf, send } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { scrape } from '../support/metrics.ts';
import { acmeLive, acmeTest, admin, keys, operatorsOf } from '../support/sidecar.ts';

const minute = 60_000;
/** Any time, in the middle of a minute. */
const begin = Date.UTC(2026, 10, 1, 12, 0, 30);

const some: AccessLine = {
  request_id: 'r',
  trace_id: undefined,
  environment: 'live',
  route: '/x',
  method: 'POST',
  status: 200,
  code: undefined,
  reported: undefined,
  account: 'acme',
  api_key: 'acme-sk-1',
  credentials: undefined,
  reason: undefined,
  upstream_error: undefined,
  bytes_in: 0,
  bytes_out: 0,
  duration_ms: 1,
  upstream_ms: undefined,
  envelope_ms: undefined,
};

/** A record of traffic, with a clock that the test sets. */
class Traffic {
  now = begin;
  readonly recent = new RecentTraffic(() => this.now);

  refuse(account: string | undefined, code: RefusalCode = 'decryption_failed', more: Partial<AccessLine> = {}): void {
    const api_key = account === undefined ? undefined : `${account}-sk-1`;
    this.recent.add({ ...some, account, api_key, code, ...more }, false, false, this.now);
  }

  respond(account: string, opened = false, more: Partial<AccessLine> = {}): void {
    this.recent.add({ ...some, account, ...more }, opened, false, this.now);
  }
}

describe('the recent activity', () => {
  test('has every field of a refusal, newest first', () => {
    const traffic = new Traffic();
    traffic.refuse('acme', 'decryption_failed', { request_id: 'one', reason: 'padding', environment: 'test' });
    traffic.now += 5;
    traffic.refuse('globex', 'key_not_permitted', { request_id: 'two', route: '/y' });
    const acmes = {
      time: begin,
      environment: 'test',
      account: 'acme',
      apiKey: 'acme-sk-1',
      requestId: 'one',
      route: '/x',
      code: 'decryption_failed',
      reason: 'padding',
    };
    const globexs = {
      time: begin + 5,
      environment: 'live',
      account: 'globex',
      apiKey: 'globex-sk-1',
      requestId: 'two',
      route: '/y',
      code: 'key_not_permitted',
      reason: undefined,
    };
    expect(traffic.recent.refusals.latest()).toEqual([globexs, acmes]);
    expect(traffic.recent.refusals.latest('acme')).toEqual([acmes]);
    expect(traffic.recent.refusals.latest('nobody')).toEqual([]);
  });

  test('has no request that succeeded, and none with an unknown key', () => {
    const traffic = new Traffic();
    traffic.respond('acme');
    traffic.refuse(undefined, 'invalid_api_key');
    traffic.refuse(undefined, 'unknown_host', { environment: undefined });
    expect(traffic.recent.refusals.latest()).toEqual([]);
  });

  test('keeps the last 50 refusals of an account, which displace none of other accounts', () => {
    const traffic = new Traffic();
    traffic.refuse('globex');
    for (let i = 1; i <= 51; i++) traffic.refuse('acme', 'decryption_failed', { request_id: String(i) });
    expect(traffic.recent.refusals.latest('acme').map(({ requestId }) => requestId)).toEqual(
      Array.from({ length: 50 }, (_, i) => String(51 - i)),
    );
    expect(traffic.recent.refusals.latest('globex')).toHaveLength(1);
  });

  test('keeps the last 1,000 refusals of all accounts, and at most 50 of an account whose old ones were displaced', () => {
    const traffic = new Traffic();
    for (let i = 0; i < 1_001; i++) traffic.refuse(`account-${Math.floor(i / 50)}`);
    expect(traffic.recent.refusals.latest()).toHaveLength(1_000);
    expect(traffic.recent.refusals.latest('account-0')).toHaveLength(49);
    for (let i = 0; i < 51; i++) traffic.refuse('account-0');
    expect(traffic.recent.refusals.latest('account-0')).toHaveLength(50);
    expect(traffic.recent.refusals.latest().length).toBeLessThanOrEqual(1_000);
  });
});

test('a key in the wrong environment counts neither as used nor as ended, but as refused', () => {
  const traffic = new Traffic();
  traffic.refuse('acme', 'environment_mismatch');
  expect(traffic.recent.keyUses.of(['acme-sk-1'], begin)).toMatchObject({ lastAt: undefined, attempts: 0 });
  expect(traffic.recent.refusals.latest('acme')).toMatchObject([{ code: 'environment_mismatch' }]);
});

describe('the accounts with failures', () => {
  test('are sorted by their refusals in an environment, with their other requests', () => {
    const traffic = new Traffic();
    traffic.respond('acme', true);
    traffic.respond('initech');
    traffic.refuse('acme', 'key_not_permitted');
    for (const environment of ['test', 'live', 'live'] as const) {
      traffic.refuse('globex', 'envelope_required', { environment });
    }
    const globex = { account: 'globex', opened: 0 };
    expect(traffic.recent.failures()).toEqual([
      { ...globex, environment: 'live', requests: 2, refusals: 2, unopened: 0, unread: 2, code: 'envelope_required' },
      {
        account: 'acme',
        environment: 'live',
        requests: 2,
        refusals: 1,
        opened: 1,
        unopened: 0,
        unread: 0,
        code: 'key_not_permitted',
      },
      { ...globex, environment: 'test', requests: 1, refusals: 1, unopened: 0, unread: 1, code: 'envelope_required' },
    ]);
    traffic.refuse('acme', 'envelope_required');
    traffic.refuse('acme', 'envelope_required');
    const found = (wanted: Parameters<RecentTraffic['failures']>[0]) =>
      traffic.recent
        .failures(wanted)
        .map(({ account, environment, refusals, code }) => [account, environment, refusals, code].join(' '));
    expect(found({ environment: 'test' })).toEqual(['globex test 1 envelope_required']);
    expect(found({ environment: 'live' })[0]).toBe('acme live 3 envelope_required');
    expect(found({ code: 'key_not_permitted' })).toEqual(['acme live 1 key_not_permitted']);
    traffic.now += 10 * minute;
    expect(found({ code: 'key_not_permitted' })).toEqual([]);
  });

  test('are at most 20', () => {
    const traffic = new Traffic();
    for (let i = 0; i < 21; i++) for (let n = 0; n <= i; n++) traffic.refuse(`account-${i}`);
    const named = traffic.recent.failures();
    expect(named).toHaveLength(20);
    expect(named.map(({ refusals }) => refusals)).toEqual(Array.from({ length: 20 }, (_, i) => 21 - i));
  });

  test.each([
    ['nine minutes later', 9 * minute, 1],
    ['ten minutes later', 10 * minute, 0],
    ['a day later', 1_440 * minute, 0],
    ['when the clock was set back by half a minute', -31_000, 1],
    ['when the clock was set back by a day', -1_440 * minute, 0],
  ])('are those of the last ten minutes: %s', (_, later, count) => {
    const traffic = new Traffic();
    traffic.refuse('acme');
    traffic.now += later;
    expect(traffic.recent.failures()).toHaveLength(count);
  });

  test('are counted for at most 10,000 accounts at a time, and other accounts replace idle ones', () => {
    const traffic = new Traffic();
    for (let i = 0; i < 10_000; i++) traffic.respond(`account-${i}`);
    traffic.refuse('late');
    expect(traffic.recent.failures()).toEqual([]);
    traffic.refuse('account-9999');
    expect(traffic.recent.failures()).toHaveLength(1);
    traffic.now += 10 * minute;
    traffic.refuse('late');
    expect(traffic.recent.failures()).toMatchObject([{ account: 'late', refusals: 1 }]);
  });
});

describe('the share of accounts whose envelopes all fail', () => {
  test('counts only accounts that sent envelopes in that environment', () => {
    const traffic = new Traffic();
    expect(traffic.recent.failingRatio('live')).toBe(0);
    traffic.respond('globex');
    traffic.respond('acme', true);
    expect(traffic.recent.failingRatio('live')).toBe(0);
    traffic.refuse('small');
    expect(traffic.recent.failingRatio('live')).toBe(0.5);
    expect(traffic.recent.failingRatio('test')).toBe(0);
    traffic.refuse('acme');
    expect(traffic.recent.failingRatio('live')).toBe(0.5);
    traffic.respond('small', true);
    expect(traffic.recent.failingRatio('live')).toBe(0);
  });
});

describe('the report in the log', () => {
  function reported(traffic: Traffic): Record<string, unknown>[] {
    const lines: string[] = [];
    traffic.recent.report(createLogger('info', { write: (line: string) => void lines.push(line) }));
    return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  test('is not written without refusals', () => {
    const traffic = new Traffic();
    traffic.respond('acme', true);
    expect(reported(traffic)).toEqual([]);
  });

  test('names the accounts, and is a warning if all envelopes of one fail', () => {
    const traffic = new Traffic();
    traffic.refuse('acme', 'key_not_permitted');
    expect(reported(traffic)).toMatchObject([{ level: 'info', failures: [{ account: 'acme', refusals: 1 }] }]);
    traffic.refuse('globex');
    expect(reported(traffic)).toMatchObject([{ level: 'warn', failures: [{}, {}] }]);
  });
});

test('a sidecar records which envelopes opened and which did not', async () => {
  const { sidecar } = await startGateway();
  const failing = (): Promise<string | undefined> =>
    scrape(sidecar).then(
      (text) => /^envelope_sidecar_accounts_failing_ratio\{environment="test"\} (.*)$/m.exec(text)?.[1],
    );
  expect(await failing()).toBe('0');
  await send(sidecar, 'POST /api/s2s/charge', { key: keys.acme, body: envelopeOf(acmeLive, '{}') });
  await vi.waitFor(async () => expect(await failing()).toBe('1'));
  await send(sidecar, 'POST /api/s2s/charge', { key: keys.acme, body: envelopeOf(acmeTest, '{}') });
  await vi.waitFor(async () => expect(await failing()).toBe('0'));
});

test('envelopes of an account without encryption are counted for ten minutes and named in the log', () => {
  const traffic = new Traffic();
  for (const account of ['acme', 'globex', 'acme']) {
    traffic.recent.add({ ...some, account, api_key: 'k', environment: 'live' }, false, true, traffic.now);
  }
  traffic.respond('other', true);
  expect(traffic.recent.unexpectedEnvelopes('acme', 'live')).toBe(2);
  expect(traffic.recent.unexpectedEnvelopes('acme', 'test')).toBe(0);
  expect(traffic.recent.unexpectedEnvelopes('other', 'live')).toBe(0);
  const lines: string[] = [];
  traffic.recent.report(createLogger('info', { write: (line) => void lines.push(line) }));
  expect(lines.map((line) => JSON.parse(line) as object)).toEqual([
    expect.objectContaining({
      level: 'warn',
      msg: 'envelopes arrived from accounts without encryption in the last ten minutes',
      accounts: [
        { account: 'acme', environment: 'live', envelopes: 2 },
        { account: 'globex', environment: 'live', envelopes: 1 },
      ],
    }),
  ]);
  traffic.now += 600_000;
  expect(traffic.recent.unexpectedEnvelopes('acme', 'live')).toBe(0);
});

describe('the uses of a grace', () => {
  test('are listed by API key with the last use, latest first', () => {
    const { graceUses } = new RecentTraffic(() => begin);
    graceUses.add('acme', 'test', 'a', begin);
    graceUses.add('acme', 'live', 'b', begin + 1);
    graceUses.add('globex', 'test', 'c', begin + 2);
    graceUses.add('acme', 'test', 'a', begin + 3);
    const acmes = [
      { account: 'acme', environment: 'test', apiKey: 'a', lastUsedAt: begin + 3 },
      { account: 'acme', environment: 'live', apiKey: 'b', lastUsedAt: begin + 1 },
    ];
    expect(graceUses.latest('acme')).toEqual(acmes);
    expect(graceUses.latest().map(({ apiKey }) => apiKey)).toEqual(['a', 'c', 'b']);
  });

  test('are at most 1,000: the key whose last use is the oldest is dropped', () => {
    const { graceUses } = new RecentTraffic(() => begin);
    for (let i = 0; i < 1_000; i += 1) graceUses.add('acme', 'test', `k${i}`, begin + i);
    graceUses.add('acme', 'test', 'k0', begin + 2_000);
    graceUses.add('globex', 'test', 'late', begin + 2_001);
    const keys = graceUses.latest().map(({ apiKey }) => apiKey);
    expect(keys).toHaveLength(1_000);
    expect(keys).not.toContain('k1');
    expect(keys.slice(0, 2)).toEqual(['late', 'k0']);
  });
});

test.each(['test', 'live'] as const)(
  'the number of envelopes that do not open is the same as in the metric: %s',
  async (name) => {
    const { sidecar, upstream } = await startGateway({
      serves: name,
      operators: operatorsOf([admin('otto', 'o'.repeat(40))]),
      limits: { failedKeys: { attempts: 1, window: 60_000 } },
    });
    const credentials = name === 'test' ? acmeTest : acmeLive;
    const own = name === 'test' ? keys.acme : keys.acmeLive;
    const charge = (key: string, body: string, headers = {}): Promise<unknown> =>
      send(sidecar, 'POST /api/s2s/charge', { key, body, headers });
    await charge(own, envelopeOf(credentials, '{}'));
    await charge(own, '{"amount":1}');
    await charge(own, '{"data":1}');
    await charge(own, envelopeOf(credentials, '{}'), { 'Envelope-Credentials': '0'.repeat(16) });
    expect(upstream.seen).toHaveLength(1);
    for (const data of ['zz', 'ab', 'ab'.repeat(16)]) await charge(own, JSON.stringify({ data }));
    const failed = async (): Promise<number> => {
      const series = `envelope_sidecar_envelopes_total{environment="${name}",operation="open",outcome="failed"}`;
      return Number((await scrape(sidecar)).split(`${series} `)[1]?.split('\n')[0]);
    };
    const url = `http://127.0.0.1:${sidecar.app.addresses.operators?.port}/api/v1/failures`;
    const shown = async (): Promise<number> => {
      const response = await fetch(url, { headers: { Authorization: `Bearer ${'o'.repeat(40)}` } });
      const { failures } = (await response.json()) as { failures: { unopened: number }[] };
      return failures.reduce((sum, { unopened }) => sum + unopened, 0);
    };
    await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(7));
    expect(await failed()).toBeGreaterThan(0);
    expect(await shown()).toBe(await failed());
  },
);

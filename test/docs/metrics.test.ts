import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { METHODS } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry, type Metric } from 'prom-client';
import { describe, expect, onTestFinished, test } from 'vitest';
import { environmentNames, keyKinds } from '../../src/accounts/api-key.ts';
import { lookupOutcomes } from '../../src/accounts/postgres/monitor.ts';
import { countAccounts } from '../../src/accounts/account-stats.ts';
import { beginning } from '../../src/audit/chain.ts';
import { reportableCodes } from '../../src/config/choices.ts';
import { ClockWatch } from '../../src/telemetry/clock-watch.ts';
import { HandshakeFailures } from '../../src/telemetry/handshakes.ts';
import { directoryMonitor } from '../../src/telemetry/directory-monitor.ts';
import { callCounter, watchKms } from '../../src/telemetry/kms-watch.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import type { Metrics } from '../../src/telemetry/metrics.ts';
import { ReloadMetrics } from '../../src/telemetry/reload-metrics.ts';
import {
  accountMetrics,
  certificateMetrics,
  inFlightMetric,
  limitMetrics,
  masterKeysMetric,
  operatorsMetrics,
  processMetrics,
  sealedCredentialsMetric,
} from '../../src/telemetry/sidecar-metrics.ts';
import { watchTrail } from '../../src/telemetry/trail-watch.ts';
import { TrafficRecorder } from '../../src/telemetry/traffic-recorder.ts';
import { describeUnless } from '../support/describe-unless.ts';

/** A metric as described on the page. */
interface Described {
  readonly name: string;
  readonly type: string;
  /** The values that the page lists, by label. */
  readonly labels: ReadonlyMap<string, readonly string[]>;
  readonly query: string;
}

function readPage(): Described[] {
  const [, ...sections] = readFileSync('docs/metrics.md', 'utf8').split(/^### /m);
  return sections.map((section) => {
    const labels = [...section.matchAll(/^- `(\w+)`: (.*)$/gm)].map(
      ([, label = '', values = '']) =>
        [label, [...values.matchAll(/`(\w+)`/g)].map(([, value = '']) => value)] as const,
    );
    return {
      name: /^`(\w+)`/.exec(section)?.[1] ?? '',
      type: /^An? (counter|gauge|histogram)\b/m.exec(section)?.[1] ?? '',
      labels: new Map(labels),
      query: /^```promql\n(.*)\n```$/m.exec(section)?.[1] ?? '',
    };
  });
}

/** Every metric that the sidecar can have. */
function everyMetric(): { registry: Registry; metrics: Metrics } {
  const registry = new Registry();
  const silent = createLogger('silent', { write: () => {} });
  const recorder = new TrafficRecorder(registry, silent, () => 0, '0.0.0');
  void recorder.stop();
  const reloads = new ReloadMetrics(registry);
  processMetrics(registry, '1.2.3');
  new ClockWatch(
    registry,
    silent,
    () => 0,
    () => 0,
  ).stop();
  accountMetrics(registry, () => countAccounts([], 0));
  for (const file of ['sidecar', 'accounts'] as const) reloads.loaded(file, 0);
  operatorsMetrics(registry);
  const handshakes = new HandshakeFailures(registry, silent);
  for (const listener of ['merchants', 'operators'] as const) handshakes.of(listener);
  certificateMetrics(registry, () => []);
  sealedCredentialsMetric(registry);
  const use = { connections: 0, inFlight: 0, buffered: 0 };
  inFlightMetric(registry, () => 0);
  limitMetrics(registry, () => ({ limits: use, used: use }));
  watchTrail(registry, silent, async () => ({ last: beginning, isSigned: false, seenHash: undefined })).stop();
  watchKms(registry, silent, () => undefined).stop();
  masterKeysMetric(
    registry,
    () => ({ environments: [], store: { masterKeys: [] } }),
    () => undefined,
  );
  void callCounter(registry);
  const state = (): undefined => undefined;
  directoryMonitor(registry, silent, state, () => 0);
  return { registry, metrics: recorder.metrics };
}

const page = readPage();
const { registry, metrics } = everyMetric();
const own = registry.getMetricsAsArray().filter(({ name }) => name.startsWith('envelope_sidecar_'));

/** The values that a label has in a scrape. */
async function valuesOf(name: string, label: string): Promise<string[]> {
  const { values } = (await (registry.getSingleMetric(name) as Metric).get()) as {
    values: { labels: Record<string, string> }[];
  };
  return [...new Set(values.map(({ labels }) => labels[label] ?? ''))];
}

describe('docs/metrics.md', () => {
  test('describes every metric, and no others', () => {
    expect(page.map(({ name }) => name).toSorted()).toEqual(own.map(({ name }) => name).toSorted());
  });

  test('lists under "Accounts in a database" the metrics that only a sidecar with PostgreSQL has', () => {
    const withDatabase = new Registry();
    const silent = createLogger('silent', { write: () => {} });
    directoryMonitor(
      withDatabase,
      silent,
      () => undefined,
      () => 0,
    );
    const [, section = ''] =
      /^## Accounts in a database$(.*?)^## /ms.exec(readFileSync('docs/metrics.md', 'utf8')) ?? [];
    const only = withDatabase.getMetricsAsArray().map(({ name }) => name);
    const named = [...section.matchAll(/^### `(\w+)`$/gm)].map(([, name]) => name);
    expect(named).toEqual(expect.arrayContaining(only));
    expect(named).toHaveLength(only.length);
  });

  test.each(page)('has the type and the labels of $name', ({ name, type, labels }) => {
    const metric = registry.getSingleMetric(name) as unknown as { type: string; labelNames: string[] };
    expect(type).toBe(metric.type);
    expect([...labels.keys()]).toEqual(metric.labelNames);
  });

  /** The values that the page lists for a label of a metric, whose name is given without its prefix. */
  const described = (name: string, label: string): readonly string[] | undefined =>
    page.find((each) => each.name === `envelope_sidecar_${name}`)?.labels.get(label);

  test.each([
    ['requests_total', 'environment', [...environmentNames, 'none']],
    ['request_duration_seconds', 'environment', [...environmentNames, 'none']],
    ['upstream_duration_seconds', 'environment', environmentNames],
    ['overhead_duration_seconds', 'environment', [...environmentNames, 'none']],
    ['upstream_unasked_total', 'environment', environmentNames],
    ['refusals_total', 'environment', [...environmentNames, 'none']],
    ['reported_total', 'environment', environmentNames],
    ['reported_total', 'code', reportableCodes],
    ['envelopes_total', 'environment', environmentNames],
    ['envelopes_total', 'operation', ['open', 'seal']],
    ['envelopes_total', 'outcome', ['ok', 'failed']],
    ['envelope_duration_seconds', 'operation', ['open', 'seal']],
    ['grace_requests_total', 'environment', environmentNames],
    ['grace_requests_total', 'credentials', ['current', 'previous', 'none']],
    ['unexpected_envelopes_total', 'environment', environmentNames],
    ['accounts_lookups_total', 'outcome', lookupOutcomes],
  ])('names the values of %s: %s', (name, label, values) => {
    expect(described(name, label)).toEqual(values);
  });

  // Every value of these labels exists from the start.
  test.each([
    ['config_reloads_total', 'file'],
    ['config_reloads_total', 'outcome'],
    ['config_last_reload_success_timestamp_seconds', 'file'],
    ['config_last_reload_successful', 'file'],
    ['accounts', 'encryption'],
    ['api_keys', 'environment'],
    ['api_keys', 'kind'],
    ['api_keys', 'rotation'],
    ['api_keys_expiring', 'environment'],
    ['api_keys_expiring', 'kind'],
    ['credentials', 'environment'],
    ['credentials', 'rotation'],
    ['accounts_lookups_total', 'outcome'],
    ['accounts_cached', 'kind'],
    ['accounts_failing_ratio', 'environment'],
    ['connections_closed_total', 'reason'],
    ['operator_refusals_total', 'reason'],
    ['tls_handshake_failures_total', 'listener'],
    ['tls_handshake_failures_total', 'reason'],
    ['limit', 'limit'],
    ['limit_used', 'limit'],
  ])('names the values that %s has: %s', async (name, label) => {
    await registry.metrics();
    expect(described(name, label)).toEqual(await valuesOf(`envelope_sidecar_${name}`, label));
  });

  test('names the kinds of API keys', () => {
    expect(described('api_keys', 'kind')).toEqual(keyKinds);
  });

  test('names every method that is not counted as other', async () => {
    const line = { request_id: 'r', environment: 'test', route: '/x', status: 200 } as const;
    for (const method of METHODS) metrics.request({ ...line, method }, undefined);
    const values = await valuesOf('envelope_sidecar_requests_total', 'method');
    expect(described('requests_total', 'method')?.toSorted()).toEqual(values.toSorted());
    expect(values).toContain('other');
  });

  test.each(page)('has a query that contains $name', ({ name, query }) => {
    expect(query).toContain(name);
  });
});

const missingPromtool = spawnSync('promtool', ['--version']).error === undefined ? undefined : 'there is no promtool';

describeUnless(missingPromtool, 'the metrics of every configuration', () => {
  test('are accepted by promtool', async () => {
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], {
      input: await registry.metrics(),
      encoding: 'utf8',
    });
    expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '', stderr: '' });
  });
});

describeUnless(missingPromtool, 'the queries of docs/metrics.md', () => {
  test('can be parsed by Prometheus', () => {
    const folder = mkdtempSync(join(tmpdir(), 'queries-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, 'rules.yaml');
    const rules = page.map(({ query }, i) => ({ record: `query:${i}`, expr: query }));
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'queries', rules }] }));
    const { stdout, stderr } = spawnSync('promtool', ['check', 'rules', file], { encoding: 'utf8' });
    expect(stderr).toBe('');
    expect(stdout).toContain(`SUCCESS: ${page.length} rules found`);
  });
});

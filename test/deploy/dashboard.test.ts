import { resolve } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { dashboard } from '../../deploy/grafana/dashboard.ts';
import { rows } from '../../deploy/grafana/panels.ts';
import { envelopeOf, send } from '../support/client.ts';
import { startServe } from '../support/command.ts';
import { describeWhere } from '../support/describe-where.ts';
import { Folder, accountsFile, acmeEntry, globexEntry, sidecarFile } from '../support/folder.ts';
import { acmeTest, keys } from '../support/sidecar.ts';
import { missingTools } from '../support/tools.ts';
import { startUpstream } from '../support/upstream.ts';
import { formatted } from './formatted.ts';
import { startPrometheus } from './prometheus-server.ts';

const panels = rows.flatMap((row) => row.panels);
const queries = panels.flatMap(({ title, queries: all }) => all.map(([, expr]) => ({ title, expr })));

interface Placed {
  readonly id: number;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
}

describe('the dashboard', () => {
  test('is the one in the repository', async () => {
    const path = 'deploy/grafana/dashboard.json';
    const text = await formatted(path, JSON.stringify(dashboard()));
    await expect(text).toMatchFileSnapshot(resolve(path));
  });

  test('can be told which data source, namespaces, pods and environments', () => {
    const { list = [] } = dashboard().templating;
    expect(list.map(({ name }) => name)).toEqual(['datasource', 'namespace', 'pod', 'environment']);
  });

  test('gives every panel a name of its own, a place of its own and an explanation', () => {
    const placed = (dashboard().panels ?? []) as readonly Placed[];
    expect(new Set(placed.map(({ id }) => id)).size).toBe(placed.length);
    expect(new Set(placed.map(({ title }) => title)).size).toBe(placed.length);
    expect(placed).toHaveLength(panels.length + rows.length);
    const cells = placed.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)},${y + Math.floor(cell / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    for (const { description, unit } of panels) {
      expect(description).toMatch(/\.$/);
      expect(unit).not.toBe('');
    }
  });

  test.each(queries)('follows the variables and the zoom: $title: $expr', ({ expr }) => {
    const selectors = expr.match(/\w+\{[^}]*\}/g) ?? [];
    expect(selectors.length).toBeGreaterThan(0);
    for (const selector of selectors) expect(selector).toContain('namespace=~"$namespace", pod=~"$pod"');
    for (const [, range] of expr.matchAll(/\[(.*?)\]/g)) expect(range).toBe('$__rate_interval');
    // A metric that knows its environment is narrowed to it, but for the sums over all environments.
    const known = /(?:requests_total|refusals_total|envelopes_total|_bucket|api_keys|credentials)\{/;
    for (const selector of selectors) {
      const knows = known.test(selector) && !selector.includes('envelope_duration');
      expect(selector.includes('environment=~"$environment"')).toBe(knows);
    }
  });
});

describeWhere(missingTools('prometheus'), 'a Prometheus that scrapes a sidecar under load', () => {
  test('has data for every panel and every variable, and evaluates every rule', async () => {
    const upstream = await startUpstream();
    const folder = new Folder({
      'sidecar.yaml': sidecarFile(upstream.origin),
      'accounts.yaml': accountsFile(acmeEntry, globexEntry(keys.globex)),
    });
    const sidecar = await startServe(folder.file('sidecar.yaml'));
    const prometheus = await startPrometheus(new URL(sidecar.adminUrl).host, 'deploy/prometheus/rules.yaml');

    const over = new AbortController();
    onTestFinished(() => over.abort());
    const envelope = envelopeOf(acmeTest, '{"amount":1000}');
    const load = (async () => {
      while (!over.signal.aborted) {
        await Promise.all([
          send(sidecar, 'POST /api/s2s/charge', { key: keys.acme, body: envelope }),
          send(sidecar, 'POST /api/s2s/charge', { key: keys.acme, body: '{"data":"00"}' }),
          send(sidecar, 'GET /api/v1/transactions', { key: keys.globex }),
          send(sidecar, 'GET /api/v1/transactions'),
        ]);
      }
    })();
    const scrapes = async (): Promise<number> => {
      const [sample] = await prometheus.query('count_over_time(envelope_sidecar_requests_total{status="200"}[1m])');
      return Number(sample?.value[1]);
    };
    await expect.poll(scrapes, { timeout: 20_000, interval: 250 }).toBeGreaterThanOrEqual(4);

    const filled = (expr: string): string =>
      expr
        .replaceAll('$namespace', 'payments-test')
        .replaceAll('$pod', 'payment-core-1|payment-core-2')
        .replaceAll('$environment', '.*')
        .replaceAll('$__rate_interval', '10s');
    const empty: string[] = [];
    for (const { title, expr } of queries) {
      const samples = await prometheus.query(filled(expr));
      if (!samples.some(({ value }) => Number.isFinite(Number(value[1])))) empty.push(`${title}: ${expr}`);
    }
    for (const { name, query } of dashboard().templating.list ?? []) {
      if (typeof query !== 'object') continue;
      const [, series = '', label = ''] = /^label_values\((.+), (\w+)\)$/.exec(filled(String(query['query']))) ?? [];
      if ((await prometheus.labelValues(series, label)).length === 0) empty.push(name);
    }
    expect(empty).toEqual([]);

    const rules = await prometheus.rules();
    expect(rules.length).toBeGreaterThan(10);
    expect(rules.filter(({ health }) => health !== 'ok')).toEqual([]);
    expect(await prometheus.query('environment:envelope_sidecar_requests:error_ratio_rate5m')).toBeDefined();
    over.abort();
    await load;
  }, 60_000);
});

import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { dashboard, panels, queries, type Dashboard, type Panel } from './dashboard.ts';
import { problemsOfDashboards } from './dashboard-schema.ts';

/** The metrics that have the label `environment`, according to docs/metrics.md. */
const withEnvironment = new Set(
  readFileSync('docs/metrics.md', 'utf8')
    .split(/^### /m)
    .filter((section) => section.includes('\n- `environment`: '))
    .map((section) => /^`(\w+)`/.exec(section)?.[1] ?? ''),
);

function isOf(type: string): (panel: Panel) => boolean {
  return (panel) => panel.type === type;
}

describe('the dashboard', () => {
  test("is valid according to Grafana's types, which reject missing fields, unknown fields and unknown values", () => {
    const broken = [
      (d) => delete d.schemaVersion,
      (d) => (d.templating.list[1] = { ...d.templating.list[1], refresh: 9 }),
      (d) => Object.assign(d.panels.find(isOf('stat'))?.options ?? {}, { textMod: 'name' }),
      (d) => Object.assign(d.panels.find(isOf('timeseries'))?.options ?? {}, { legend: { placement: 'side' } }),
      (d) => Object.assign(d.panels.find(isOf('timeseries'))?.fieldConfig.defaults.custom ?? {}, { fill: 3 }),
      (d) => delete d.panels.find(isOf('timeseries'))?.targets[0]?.expr,
      (d) => Object.assign(d.panels.find(isOf('stat')) ?? {}, { type: 'graf' }),
    ] satisfies ((copy: Dashboard) => unknown)[];
    const copies = broken.map((breakIt) => {
      const copy = structuredClone(dashboard);
      breakIt(copy);
      return copy;
    });
    const [own, ...others] = problemsOfDashboards([dashboard, ...copies]);
    expect(own).toEqual([]);
    for (const problems of others) expect(problems).not.toEqual([]);
  });

  test('has variables for the data source, namespaces, pods and environments', () => {
    expect(dashboard.templating.list.map(({ name }) => name)).toEqual([
      'datasource',
      'namespace',
      'pod',
      'environment',
    ]);
  });

  test('gives every panel its own name, place and explanation', () => {
    const placed = dashboard.panels;
    expect(new Set(placed.map(({ id }) => id)).size).toBe(placed.length);
    expect(new Set(placed.map(({ title }) => title)).size).toBe(placed.length);
    expect(queries.length).toBeGreaterThan(40);
    const cells = placed.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)},${y + Math.floor(cell / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    // Grafana's schema has limits that its types cannot express: kinds/dashboard/dashboard_kind.cue, GridPos.
    for (const { x, y, w, h } of placed.map(({ gridPos }) => gridPos)) {
      expect([x, y, w, h].every(Number.isInteger)).toBe(true);
      expect(Math.min(x, y, w - 1, h - 1)).toBeGreaterThanOrEqual(0);
      expect(x + w).toBeLessThanOrEqual(24);
    }
    for (const { description, fieldConfig } of panels) {
      expect(description).toMatch(/\.$/);
      expect(fieldConfig.defaults.unit).toMatch(/./);
    }
  });

  test.each(queries)('follows the variables and the zoom: $title: $expr', ({ expr }) => {
    const selectors = expr.match(/\w+\{[^}]*\}/g) ?? [];
    expect(selectors.length).toBeGreaterThan(0);
    for (const selector of selectors) expect(selector).toContain('namespace=~"$namespace", pod=~"$pod"');
    for (const [, range] of expr.matchAll(/\[(.*?)\]/g)) expect(range).toBe('$__rate_interval');
    // A query filters by environment if its metric has one, unless it computes a mean over all environments.
    for (const selector of selectors) {
      const [, name = ''] = /^(\w+?)(?:_bucket|_sum|_count)?\{/.exec(selector) ?? [];
      const isMean = /_(?:sum|count)\{/.test(selector);
      expect(selector.includes('environment=~"$environment"')).toBe(withEnvironment.has(name) && !isMean);
    }
  });
});

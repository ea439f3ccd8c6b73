import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { dashboard, rows } from '../../deploy/grafana/dashboard.ts';
import { problemsOfDashboards } from './dashboard-schema.ts';
import { formatted } from './formatted.ts';

const panels = rows.flatMap((row) => row.panels);
const queries = panels.flatMap(({ title, queries: all }) => all.map(([, expr]) => ({ title, expr })));

/** The metrics that have the label, according to docs/metrics.md. */
const withEnvironment = new Set(
  readFileSync('docs/metrics.md', 'utf8')
    .split(/^### /m)
    .filter((section) => section.includes('\n- `environment`: '))
    .map((section) => /^`(\w+)`/.exec(section)?.[1] ?? ''),
);

interface Placed {
  readonly id: number;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
}

/** The part of the dashboard that the tests read. */
interface Shipped {
  schemaVersion?: number;
  readonly templating: { readonly list: object[] };
  readonly panels: ShippedPanel[];
}

interface ShippedPanel {
  readonly type: string;
  readonly options: object;
  readonly fieldConfig: { readonly defaults: { readonly custom?: object } };
  readonly targets: { expr?: string }[];
}

function readShipped(): Shipped {
  return JSON.parse(readFileSync('deploy/grafana/dashboard.json', 'utf8')) as Shipped;
}

function isOf(type: string): (panel: ShippedPanel) => boolean {
  return (panel) => panel.type === type;
}

describe('the dashboard', () => {
  test('is the one in the repository', async () => {
    const path = 'deploy/grafana/dashboard.json';
    const text = await formatted(path, JSON.stringify(dashboard()));
    await expect(text).toMatchFileSnapshot(resolve(path));
  });

  test('is valid by the types of Grafana, which reject missing fields, unknown fields and unknown values', () => {
    const shipped = readShipped();
    const broken = [
      (d) => delete d.schemaVersion,
      (d) => (d.templating.list[1] = { ...d.templating.list[1], refresh: 9 }),
      (d) => Object.assign(d.panels.find(isOf('stat'))?.options ?? {}, { textMod: 'name' }),
      (d) => Object.assign(d.panels.find(isOf('timeseries'))?.options ?? {}, { legend: { placement: 'side' } }),
      (d) => Object.assign(d.panels.find(isOf('timeseries'))?.fieldConfig.defaults.custom ?? {}, { fill: 3 }),
      (d) => delete d.panels.find(isOf('timeseries'))?.targets[0]?.expr,
      (d) => Object.assign(d.panels.find(isOf('stat')) ?? {}, { type: 'graf' }),
    ] satisfies ((dashboard: Shipped) => unknown)[];
    const copies = broken.map((breakIt) => {
      const copy = structuredClone(shipped);
      breakIt(copy);
      return copy;
    });
    const [own, ...others] = problemsOfDashboards([shipped, ...copies]);
    expect(own).toEqual([]);
    for (const problems of others) expect(problems).not.toEqual([]);
  });

  test('has variables for data source, namespaces, pods and environments', () => {
    const { list = [] } = dashboard().templating;
    expect(list.map(({ name }) => name)).toEqual(['datasource', 'namespace', 'pod', 'environment']);
  });

  test('gives every panel its own name, place and explanation', () => {
    const placed = (dashboard().panels ?? []) as readonly Placed[];
    expect(new Set(placed.map(({ id }) => id)).size).toBe(placed.length);
    expect(new Set(placed.map(({ title }) => title)).size).toBe(placed.length);
    expect(placed).toHaveLength(panels.length + rows.length);
    const cells = placed.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)},${y + Math.floor(cell / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    // Bounds in the schema of Grafana that its types cannot express: kinds/dashboard/dashboard_kind.cue, GridPos.
    for (const { x, y, w, h } of placed.map(({ gridPos }) => gridPos)) {
      expect([x, y, w, h].every(Number.isInteger)).toBe(true);
      expect(Math.min(x, y, w - 1, h - 1)).toBeGreaterThanOrEqual(0);
      expect(x + w).toBeLessThanOrEqual(24);
    }
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
    // A metric with an environment is filtered by it, except in means over all environments.
    for (const selector of selectors) {
      const [, name = ''] = /^(\w+?)(?:_bucket|_sum|_count)?\{/.exec(selector) ?? [];
      const isMean = /_(?:sum|count)\{/.test(selector);
      expect(selector.includes('environment=~"$environment"')).toBe(withEnvironment.has(name) && !isMean);
    }
  });
});

import { readFileSync } from 'node:fs';

/** The parts of a dashboard that the tests read. */
export interface Dashboard {
  schemaVersion?: number;
  readonly templating: { readonly list: Variable[] };
  /** Rows are panels of the type `row`. */
  readonly panels: Panel[];
}

interface Variable {
  readonly name?: string;
  readonly query?: string | { readonly query?: string };
  readonly refresh?: number;
}

export interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly options: object;
  readonly fieldConfig: { readonly defaults: { readonly unit?: string; readonly custom?: object } };
  readonly targets: { expr?: string }[];
}

export const dashboard = JSON.parse(readFileSync('deploy/grafana/dashboard.json', 'utf8')) as Dashboard;
export const panels = dashboard.panels.filter(({ type }) => type !== 'row');
export const queries = panels.flatMap(({ title, targets }) => targets.map(({ expr = '' }) => ({ title, expr })));

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * TypeScript declarations of a dashboard's JSON. The Foundation SDK's types are generated from Grafana's schemas, but are meant for the
 * SDK's builders. Their enumerations do not accept literals, and they leave the options of a panel untyped, because these depend on the
 * kind of panel.
 */
const types = `
import type { Dashboard, FieldConfig, FieldConfigSource, Panel, RowPanel } from '@grafana/grafana-foundation-sdk/dashboard';
import type { dataquery } from '@grafana/grafana-foundation-sdk/prometheus';
import type { Options as StatOptions } from '@grafana/grafana-foundation-sdk/stat';
import type { FieldConfig as TimeseriesField, Options as TimeseriesOptions } from '@grafana/grafana-foundation-sdk/timeseries';

type Json<T> = 0 extends 1 & T ? T : T extends string ? \`\${T}\` : T extends readonly (infer E)[] ? Json<E>[] : T extends object
  ? { [K in keyof T as K extends \`_implements\${string}\` ? never : K]: Json<T[K]> } : T;

interface KindOfPanel<Type extends string, Options, Custom> extends
  Omit<Json<Panel>, 'type' | 'title' | 'options' | 'fieldConfig' | 'targets' | 'gridPos'> {
  type: Type;
  title: string;
  gridPos: Json<NonNullable<Panel['gridPos']>>;
  options: Json<Options>;
  fieldConfig: Omit<Json<FieldConfigSource>, 'defaults'> & {
    defaults: Omit<Json<FieldConfig>, 'custom'> & { custom?: Json<Custom> };
  };
  targets: Json<dataquery>[];
}

export type DashboardJson = Omit<Json<Dashboard>, 'title' | 'panels'> & {
  title: string;
  panels: (Json<RowPanel> | KindOfPanel<'stat', StatOptions, never> | KindOfPanel<'timeseries', TimeseriesOptions, TimeseriesField>)[];
};
`;

/**
 * The errors that Grafana's types find in each of these dashboards: missing, unknown and mistyped members, invalid
 * values of enumerations, and invalid options of stat and timeseries panels with Prometheus queries. All dashboards are
 * compiled at once, because starting the compiler takes most of the time.
 */
export function problemsOfDashboards(dashboards: readonly unknown[]): string[][] {
  // The files are written below node_modules, because TypeScript resolves their imports of packages from their own folder.
  const folder = mkdtempSync(join('node_modules', '.dashboards-'));
  try {
    writeFileSync(join(folder, 'types.ts'), types);
    const files = dashboards.map((dashboard, index) => {
      const file = join(folder, `dashboard-${index}.ts`);
      const literal = JSON.stringify(dashboard, undefined, 1);
      writeFileSync(
        file,
        `import type { DashboardJson } from './types.ts';\nexport const d: DashboardJson = ${literal};\n`,
      );
      return file;
    });
    const compiler = 'node_modules/@typescript/native/bin/tsc';
    const options = [
      '--ignoreConfig',
      '--noEmit',
      '--strict',
      '--skipLibCheck',
      '--allowImportingTsExtensions',
      '--types',
      '',
    ];
    const { stdout } = spawnSync(
      process.execPath,
      [compiler, ...options, '--module', 'nodenext', '--pretty', 'false', ...files],
      { encoding: 'utf8' },
    );
    const lines = stdout.split('\n').filter((line) => line.includes('error TS'));
    const known = files.map((file) => lines.filter((line) => line.startsWith(file)));
    const others = lines.filter((line) => !files.some((file) => line.startsWith(file)));
    if (others.length > 0) throw new Error(others.join('\n'));
    return known;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

import { vi } from 'vitest';
import { scrape } from '../support/metrics.ts';

/** A metric as the exposition declares it. */
export interface Declared {
  readonly type: string;
  readonly help: string;
}

/** A scrape of the project's own metrics. */
export interface Samples {
  /** The declared metrics by name. */
  readonly declared: ReadonlyMap<string, Declared>;
  /** Values by series, written `name{label="value",…}` with the labels in alphabetical order. */
  readonly values: ReadonlyMap<string, number>;
}

export type Target = Parameters<typeof scrape>[0];

/** Parses the text format of Prometheus. Omits metrics that are not the project's own. */
function parseSamples(exposition: string): Samples {
  const types = new Map<string, string>();
  const declared = new Map<string, Declared>();
  const values = new Map<string, number>();
  const helps = new Map<string, string>();
  for (const line of exposition.split('\n')) {
    const comment = /^# (HELP|TYPE) (envelope_sidecar_\w+) (.*)$/.exec(line);
    if (comment !== null) {
      const [, kind, name = '', text = ''] = comment;
      (kind === 'TYPE' ? types : helps).set(name, text);
      continue;
    }
    const sample = /^(envelope_sidecar_\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (sample === null) continue;
    const [, name = '', written = '', value = ''] = sample;
    const labels = [...written.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([label]) => label).toSorted();
    values.set(labels.length === 0 ? name : `${name}{${labels.join(',')}}`, Number(value));
  }
  for (const [name, type] of types) declared.set(name, { type, help: helps.get(name) ?? '' });
  return { declared, values };
}

/** The samples of a running sidecar. */
export async function samplesOf(sidecar: Target): Promise<Samples> {
  return parseSamples(await scrape(sidecar));
}

/** The names of a sidecar's series, without the buckets of histograms. */
export async function seriesOf(sidecar: Target): Promise<string[]> {
  const { values } = await samplesOf(sidecar);
  return [...values.keys()].filter((series) => !series.includes('le="')).toSorted();
}

/** Waits until `series` has `value`, because a request is counted a moment after its response. */
export async function untilSample(sidecar: Target, series: string, value: number): Promise<void> {
  await vi.waitFor(async () => {
    const { values } = await samplesOf(sidecar);
    if (values.get(series) !== value) throw new Error(`${series} is ${values.get(series)} instead of ${value}`);
  }, 10_000);
}

/** The change of each series between two scrapes; unchanged ones are omitted. */
export function changes(before: Samples, after: Samples): Record<string, number> {
  const changed: Record<string, number> = {};
  for (const [series, value] of after.values) {
    const change = value - (before.values.get(series) ?? 0);
    if (change !== 0) changed[series] = change;
  }
  return changed;
}

/** Panels under one title. */
export interface Row {
  readonly title: string;
  readonly panels: readonly Panel[];
}

/** A panel: its queries and how to read it. */
export interface Panel {
  readonly kind: 'stat' | 'timeseries';
  readonly title: string;
  readonly description: string;
  /** Grafana's name of the unit. */
  readonly unit: string;
  /** Legend and PromQL. */
  readonly queries: readonly (readonly [legend: string, expr: string])[];
  /** A stat turns orange from this value on. */
  readonly warnFrom?: number;
  /** A stat shows its labels in place of its value. */
  readonly showsLabels?: boolean;
  /** The series add up to something. */
  readonly stacked?: boolean;
}

export const pods = 'namespace=~"$namespace", pod=~"$pod"';
export const traffic = `${pods}, environment=~"$environment"`;

/** Per second, over a range that holds at least four scrapes at any zoom. */
export function rate(metric: string, labels = traffic, more = ''): string {
  return `rate(envelope_sidecar_${metric}{${labels}${more}}[$__rate_interval])`;
}

export function quantiles(histogram: string, labels = traffic, by = ''): readonly (readonly [string, string])[] {
  return ['0.5', '0.95', '0.99'].map((quantile) => [
    `${by === '' ? '' : `{{${by}}} `}p${Number(quantile) * 100}`,
    `histogram_quantile(${quantile}, sum by (le${by === '' ? '' : `, ${by}`}) (${rate(`${histogram}_bucket`, labels)}))`,
  ]);
}

import type { Metric, Registry } from 'prom-client';

type LabelValue = string | number;
type Labels = Readonly<Record<string, LabelValue>>;

interface Description<Names extends readonly string[]> {
  readonly name: string;
  readonly help: string;
  readonly labelNames: Names;
}

/** A value in the form that prom-client's registry expects from a metric. */
interface Sample {
  readonly metricName?: string;
  readonly labels: Labels;
  readonly value: number;
}

/** The values of a metric's labels, one for each label name. */
type ValuesOf<Names extends readonly string[]> = { readonly [I in keyof Names]: LabelValue };

/** A node in a tree of label values, with a series at the last value. */
interface Branch<Series> {
  readonly next: Map<LabelValue, Branch<Series>>;
  series: Series | undefined;
}

/**
 * A metric for prom-client's registry. prom-client's own metrics hash all labels whenever a value is recorded. These metrics look up a
 * series in nested maps of label values and add to plain numbers, but expose the same text. Code that runs for every request keeps the
 * series that it has found.
 */
abstract class SeriesMetric<Names extends readonly string[], Series> {
  abstract readonly type: 'counter' | 'histogram';
  readonly name: string;
  readonly help: string;
  readonly labelNames: Names;
  readonly aggregator = 'sum';
  /** All series, oldest first. */
  protected readonly all: Series[] = [];
  readonly #root: Branch<Series> = { next: new Map(), series: undefined };

  constructor(registry: Registry, { name, help, labelNames }: Description<Names>) {
    this.name = name;
    this.help = help;
    this.labelNames = labelNames;
    // The parameter has the type of prom-client's own metrics, but the registry calls only `get`.
    registry.registerMetric(this as unknown as Metric);
  }

  /** The values that the registry exposes. */
  get(): Promise<object> {
    const { name, help, type, aggregator } = this;
    return Promise.resolve({ name, help, type, aggregator, values: this.samples() });
  }

  /** The series with these label values, in the order of the label names. If it does not exist, it is created and exposed from then on. */
  at(...values: ValuesOf<Names>): Series {
    let branch = this.#root;
    for (const value of values) {
      let next = branch.next.get(value);
      if (next === undefined) {
        next = { next: new Map(), series: undefined };
        branch.next.set(value, next);
      }
      branch = next;
    }
    return (branch.series ??= this.#add(values));
  }

  #add(values: readonly LabelValue[]): Series {
    const series = this.create(Object.fromEntries(values.map((value, i) => [this.labelNames[i], value])));
    this.all.push(series);
    return series;
  }

  protected abstract create(labels: Labels): Series;
  protected abstract samples(): readonly Sample[];
}

/** One series of a counter. To count, add one to `value`. */
export interface Count {
  readonly labels: Labels;
  value: number;
}

/** A counter with labels. */
export class SeriesCounter<const Names extends readonly string[]> extends SeriesMetric<Names, Count> {
  readonly type = 'counter';

  /** Adds one to the series with these label values. */
  count(...values: ValuesOf<Names>): void {
    this.at(...values).value++;
  }

  protected override create(labels: Labels): Count {
    return { labels, value: 0 };
  }

  protected override samples(): readonly Sample[] {
    return this.all;
  }
}

/** One series of a histogram. */
export class Distribution {
  readonly labels: Labels;
  readonly #bounds: readonly number[];
  /** The counts by bucket, not cumulative. */
  readonly counts: number[];
  sum = 0;
  count = 0;

  constructor(labels: Labels, bounds: readonly number[]) {
    this.labels = labels;
    this.#bounds = bounds;
    this.counts = bounds.map(() => 0);
  }

  /** @param value must be finite */
  observe(value: number): void {
    this.sum += value;
    this.count++;
    const bounds = this.#bounds;
    for (let i = 0; i < bounds.length; i += 1) {
      if (value > (bounds[i] as number)) continue;
      this.counts[i] = (this.counts[i] as number) + 1;
      return;
    }
  }
}

/** A histogram with labels. */
export class SeriesHistogram<const Names extends readonly string[]> extends SeriesMetric<Names, Distribution> {
  readonly type = 'histogram';
  readonly #bounds: readonly number[];

  /** @param description contains the upper bounds of the buckets, in ascending order */
  constructor(registry: Registry, description: Description<Names> & { readonly buckets: readonly number[] }) {
    super(registry, description);
    this.#bounds = description.buckets;
  }

  protected override create(labels: Labels): Distribution {
    return new Distribution(labels, this.#bounds);
  }

  protected override samples(): readonly Sample[] {
    return this.all.flatMap(({ labels, counts, sum, count }) => {
      let below = 0;
      const buckets = this.#bounds.map((le, i): Sample => {
        below += counts[i] ?? 0;
        return { metricName: `${this.name}_bucket`, labels: { le, ...labels }, value: below };
      });
      return [
        ...buckets,
        { metricName: `${this.name}_bucket`, labels: { le: '+Inf', ...labels }, value: count },
        { metricName: `${this.name}_sum`, labels, value: sum },
        { metricName: `${this.name}_count`, labels, value: count },
      ];
    });
  }
}

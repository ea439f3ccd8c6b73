import type { CostPace, CpuCosts } from './cpu-cost.ts';
import type { Report } from './report.ts';
import {
  addedLatencyTable,
  costRatioTable,
  costTable,
  count,
  footprintTable,
  growthTable,
  memoryTable,
  ratioTable,
  sealTable,
  type Table,
} from './table.ts';

/** A part of docs/performance.md between markers. */
export interface Block {
  readonly name: string;
  /**
   * Paragraphs and tables. The first paragraph says how the results were measured. Undefined if the report does not
   * have this part.
   */
  readonly content: (report: Report) => readonly (string | Table)[] | undefined;
}

export const blocks: readonly Block[] = [
  {
    name: 'compare',
    content: ({ compare }) =>
      compare && [
        `Median and range of ${compare.pace.rounds} rounds of ${compare.pace.seconds} s.`,
        'Ratios with large bodies:',
        // Too few requests of this size fit into a window of `cost`. Other workloads are measured better by `cost`.
        ratioTable(
          compare.results.filter(({ workload }) => workload.answered >= 1_024 ** 2),
          compare.titles,
        ),
        'Peak memory over all workloads:',
        memoryTable(compare.results, compare.titles),
      ],
  },
  {
    name: 'cost',
    content: ({ cost = [] }) => {
      const [first] = cost;
      return first && [`Median and range of ${setsOf(first.pace)}.`, costRatioTable(cost)];
    },
  },
  {
    name: 'growth',
    content: ({ growth }) => growth && ['', growthTable(growth)],
  },
  {
    name: 'latency',
    content: ({ latency }) =>
      latency && [`Median and range of ${latency.rounds} rounds.`, addedLatencyTable(latency.added, latency.titles)],
  },
  {
    name: 'footprint',
    content: ({ footprint }) =>
      footprint && [
        footprint.rounds === 1
          ? 'One run.'
          : `Median and range of ${footprint.rounds} rounds, each in fresh processes.`,
        footprintTable(footprint.figures),
      ],
  },
  {
    name: 'seals',
    content: ({ seals }) =>
      seals && [
        `${count(seals.requests)} enveloped POSTs of 350 B a second, median and range of ${seals.rounds.length} rounds.`,
        sealTable(seals),
      ],
  },
  { name: 'options', content: ({ options }) => options && [measuredIn(options), costTable(options)] },
];

/** How CPU costs of a workload were measured. */
export function measuredIn({ workload, pace }: CpuCosts): string {
  return `${workload.title}, median and range of ${setsOf(pace)}.`;
}

function setsOf({ sets, windows }: CostPace): string {
  return `${sets} sets of processes, ${windows} windows each`;
}

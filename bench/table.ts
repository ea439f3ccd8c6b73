import type { AddedLatency } from './added-latency.ts';
import type { CpuCosts } from './cpu-cost.ts';
import type { Footprint } from './footprint.ts';
import type { Curve } from './growth.ts';
import { rowsOf, type Row } from './report.ts';
import type { Result } from './rounds.ts';
import type { SealCost } from './seals.ts';
import { spreadOf, type Spread } from './statistics.ts';
import type { Workload } from './workloads.ts';

/** Lines of cells. The first line is the header row. */
export type Table = readonly (readonly string[])[];

const columns: readonly { readonly head: string; readonly timed?: true; readonly cell: (row: Row) => string }[] = [
  { head: 'requests per CPU-second', cell: (row) => written(row.requestsPerCpuSecond, count) },
  { head: 'sidecar : peer', cell: ({ ratio }) => (ratio === undefined ? '' : written(ratio, twoDigits)) },
  { head: 'requests/s', cell: (row) => count(row.requestsPerSecond.median) },
  { head: 'core used', cell: (row) => percent(row.busy.median) },
  { head: 'p50 ms', timed: true, cell: ({ latency }) => (latency === undefined ? '' : written(latency.p50, short)) },
  { head: 'p99 ms', timed: true, cell: ({ latency }) => (latency === undefined ? '' : written(latency.p99, short)) },
  {
    head: 'at requests/s',
    timed: true,
    cell: ({ latency }) => (latency === undefined ? '' : count(latency.rate.median)),
  },
  { head: 'peak memory', cell: (row) => `${megabytes(row.peakMemory)} MB` },
];

/** A workload's figures, one line for each peer. */
export function workloadTable(result: Result, titles: Readonly<Record<string, string>>): Table {
  const rows = rowsOf(result);
  const timed = rows.some((row) => row.latency !== undefined);
  const shown = columns.filter((column) => timed || column.timed === undefined);
  const head = ['', ...shown.map((column) => column.head)];
  return [head, ...rows.map((row) => [titles[row.peer] ?? row.peer].concat(shown.map(({ cell }) => cell(row))))];
}

/** The ratio of the sidecar to each peer in each workload. A peer without any ratio has no column. */
export function ratioTable(results: readonly Result[], titles: Readonly<Record<string, string>>): Table {
  const lines = results.map((result) => ({ workload: result.workload, rows: rowsOf(result) }));
  const peers = Object.keys(titles).filter(
    (name) => name !== 'sidecar' && lines.some(({ rows }) => rows.some(({ peer }) => peer === name)),
  );
  return [
    ['', ...peers.map((peer) => titles[peer] ?? peer)],
    ...lines.map(({ workload, rows }) =>
      ratioLine(workload, peers, (name) => rows.find(({ peer }) => peer === name)?.ratio),
    ),
  ];
}

/** The peak memory of each peer over all workloads, in MB. */
export function memoryTable(results: readonly Result[], titles: Readonly<Record<string, string>>): Table {
  const most = (peer: string): number => Math.max(...results.map(({ peakMemory }) => peakMemory[peer] ?? 0));
  return [['', 'MB'], ...Object.entries(titles).map(([peer, title]) => [title, megabytes(most(peer))])];
}

/** The ratios of costs that were measured together: the cost at the peer divided by the sidecar's. */
export function costRatioTable(costs: readonly CpuCosts[]): Table {
  const titles = new Map(costs.flatMap(({ peers }) => peers.slice(1).map(({ peer, title }) => [peer, title])));
  return [
    ['', ...titles.values()],
    ...costs.map(({ workload, peers }) =>
      ratioLine(workload, [...titles.keys()], (name) => {
        const ratios = peers.find(({ peer }) => peer === name)?.ratios;
        return ratios && spreadOf(ratios);
      }),
    ),
  ];
}

/** Each ratio with its range and, if there is one, its goal. */
function ratioLine(
  { title, goals }: Workload,
  peers: readonly string[],
  ratioOf: (peer: string) => Spread | undefined,
): string[] {
  const ratios = peers.map((peer) => {
    const ratio = ratioOf(peer);
    const goal = goals?.[peer];
    if (ratio === undefined) return '';
    return written(ratio, twoDigits) + (goal === undefined ? '' : ` ${ratio.median >= goal ? '≥' : '<'} ${goal}`);
  });
  return [title, ...ratios];
}

/** The sidecar's resources other than CPU time, with their goals. */
export function footprintTable(footprint: readonly Footprint[]): Table {
  return [
    ['', 'measured', 'goal', ''],
    ...footprint.map(({ title, unit, goal, figure }) => [
      title,
      `${written(figure, significant)} ${unit}`,
      `${goal} ${unit}`,
      figure.median <= goal ? 'met' : `missed by ${percent(figure.median / goal - 1)}`,
    ]),
  ];
}

/** The cost of a request at each peer, in µs of CPU time, and the difference from the first peer. */
export function costTable({ peers }: CpuCosts): Table {
  const [first] = peers;
  return [
    ['', 'µs a request', 'difference, µs', 'ratio'],
    ...peers.map(({ title, microseconds, ratios }, i) => {
      const differences = microseconds.map((value, set) => value - (first?.microseconds[set] ?? NaN));
      const compared =
        i === 0 ? ['', ''] : [written(spreadOf(differences), oneDigit), written(spreadOf(ratios), threeDigits)];
      return [title, written(spreadOf(microseconds), oneDigit), ...compared];
    }),
  ];
}

/** The latency that each peer adds to that of the upstream, with one line per rate. */
export function addedLatencyTable(added: readonly AddedLatency[], titles: Readonly<Record<string, string>>): Table {
  return [
    ['', 'requests/s', 'p50 added, ms', 'p99 added, ms'],
    ...added.map(({ peer, rate, p50, p99 }) => [
      titles[peer] ?? peer,
      count(rate),
      written(p50, twoDigits),
      written(p99, twoDigits),
    ]),
  ];
}

/**
 * Merchants' median latency without and with seals. The p99 of a short round is noise, so only the JSON contains it.
 */
export function sealTable({ seals, rounds }: SealCost): Table {
  const line = (title: string, name: 'p50' | 'busy'): string[] => [
    title,
    written(spreadOf(rounds.map(({ without }) => without[name])), twoDigits),
    written(spreadOf(rounds.map((round) => round.with[name])), twoDigits),
    written(spreadOf(rounds.map((round) => round.with[name] / round.without[name])), twoDigits),
  ];
  return [
    ['', 'without seals', `with ${count(seals)} seals/s`, 'ratio'],
    line('p50, ms', 'p50'),
    line('share of a core used', 'busy'),
  ];
}

/** How costs grow, with one line for each figure. */
export function growthTable(growth: readonly Curve[]): Table {
  return [
    ['', 'by', 'figures'],
    ...growth.map(({ title, size, unit, points }) => [
      `${title}, ${unit}`,
      size,
      points.map(({ at, figure }) => `${count(at)}: ${significant(figure.median)}`).join('; '),
    ]),
  ];
}

/** Formats a table for a terminal, with the first column aligned left and numbers aligned right. */
export function asText(table: Table): string {
  const columns = table[0]?.length ?? 0;
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...table.map((line) => (line[column] ?? '').length)),
  );
  return table
    .map((line) =>
      line.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join('   '),
    )
    .join('\n');
}

export function asMarkdown([head = [], ...lines]: Table): string {
  const rule = head.map((_, i) => (i === 0 ? '---' : '--:'));
  return [head, rule, ...lines].map((line) => `| ${line.join(' | ')} |`).join('\n');
}

/** The median, with the range in parentheses if there were several rounds. */
function written({ median, min, max }: Spread, write: (value: number) => string): string {
  return min === max ? write(median) : `${write(median)} (${write(min)}–${write(max)})`;
}

export function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** A number with at least three significant digits, but no insignificant decimals. */
function significant(value: number): string {
  return value >= 100 ? count(value) : value.toPrecision(3);
}

function megabytes(bytes: number): string {
  return String(Math.round(bytes / 1024 ** 2));
}

function oneDigit(value: number): string {
  return value.toFixed(1);
}

function twoDigits(value: number): string {
  return value.toFixed(2);
}

function threeDigits(value: number): string {
  return value.toFixed(3);
}

function short(value: number): string {
  return value >= 10 ? value.toFixed(0) : value.toFixed(2);
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

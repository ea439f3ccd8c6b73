import { parseArgs } from 'node:util';
import { classNames } from './classes.ts';
import { compare, detectable, isApart, limits, objections, type Comparison } from './judge.ts';
import { measure, type Times } from './measure.ts';
import { Random } from './random.ts';
import { startLiveSidecar } from './sidecar.ts';
import { median, sorted, type Interval } from './statistics.ts';

const usage = `npm run oracle -- [OPTIONS]

Tries to tell from response times why an envelope did not open in live. Exit code 1 if it can, or if the controls show
that it could not have.

  --requests N  number of requests, at least 100 (50,000)
  --seed N      seed of their content and order (1)
`;

interface Options {
  readonly requests: number;
  readonly seed: number;
}

function parseOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: { requests: { type: 'string', default: '50000' }, seed: { type: 'string', default: '1' } },
  });
  const [requests, seed] = [Number(values.requests), Number(values.seed)];
  if (!Number.isSafeInteger(requests) || requests < 100) throw new Error('--requests takes a whole number from 100');
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error('--seed takes a whole number');
  return { requests, seed };
}

async function run({ requests, seed }: Options): Promise<number> {
  const random = new Random(seed);
  const sidecar = await startLiveSidecar();
  let times: Times;
  try {
    times = await measure(sidecar.port, Math.ceil(requests / classNames.length), random);
  } finally {
    await sidecar.stop();
  }
  const comparisons = compare(times, random);
  for (const line of report(times, comparisons)) console.log(line);
  const found = objections(comparisons);
  for (const objection of found) console.error(objection);
  return found.length === 0 ? 0 : 1;
}

function report(times: Times, comparisons: readonly Comparison[]): string[] {
  const columns = (...cells: readonly string[]): string => cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('');
  const widths = [36, 28, 12, 36];
  const seen = detectable(times);
  return [
    columns('class', 'requests', '', 'median'),
    ...classNames.map((name) => columns(name, count(times[name].length), '', nanoseconds(median(sorted(times[name]))))),
    '',
    columns('comparison', "Cliff's delta (95 %)", 'p', 'difference of medians (95 %)', 'told apart'),
    ...comparisons.map(({ name, difference }) => {
      const { delta, deltaInterval, p, shift, shiftInterval } = difference;
      return columns(
        name,
        `${signed(delta)} ${range(deltaInterval, signed)}`,
        p < limits.p ? '< 0.001' : p.toFixed(3),
        `${nanoseconds(shift)} ${range(shiftInterval, count)}`,
        isApart(difference) ? 'yes' : 'no',
      );
    }),
    '',
    `Told apart: |delta| >= ${limits.delta} and p < ${limits.p}, by the Mann-Whitney test.`,
    `A delta of ${seen.delta.toFixed(3)}, which is ${nanoseconds(seen.shift)} here, is detected nine times in ten.`,
  ];
}

const count = (value: number): string => Math.round(value).toLocaleString('en-US');
const nanoseconds = (value: number): string => `${count(value)} ns`;
const signed = (value: number): string => (value < 0 ? '' : '+') + value.toFixed(3);
const range = ([low, high]: Interval, show: (value: number) => string): string => `(${show(low)} … ${show(high)})`;

let options: Options | undefined;
try {
  options = parseOptions(process.argv.slice(2));
} catch (error) {
  console.error(`${(error as Error).message}\n\n${usage}`);
}
process.exitCode = options === undefined ? 2 : await run(options);

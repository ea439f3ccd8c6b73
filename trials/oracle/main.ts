import { parseArgs } from 'node:util';
import { blockLength, classNames } from './classes.ts';
import { compare, detectable, isApart, limits, objections, type Comparison } from './judge.ts';
import { measure, type Times } from './measure.ts';
import { Random } from './random.ts';
import { startLiveSidecar } from './sidecar.ts';
import { median, sorted, type Interval } from './statistics.ts';

/** Decrypted lengths: short, long, and around multiples of 4,096. */
const lengths = [64, 352, 4_080, 4_096, 4_112, 16_384, 65_520, 65_536, 65_552, 262_144];

const usage = `npm run oracle -- [OPTIONS]

Tries to tell from response times why an envelope did not open in live. Exit code 1 if it can, or if the controls show
that it could not have.

  --length N    decrypted bytes, a multiple of 16 from 64 to 393,216; may be repeated (${lengths.join(', ')})
  --requests N  number of requests of each class and length, at least 20 (20,000)
  --seed N      seed of their content and order (1)
`;

interface Options {
  readonly lengths: readonly number[];
  readonly requests: number;
  readonly seed: number;
}

function parseOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      length: { type: 'string', multiple: true, default: lengths.map(String) },
      requests: { type: 'string', default: '20000' },
      seed: { type: 'string', default: '1' },
    },
  });
  const [requests, seed] = [Number(values.requests), Number(values.seed)];
  if (!Number.isSafeInteger(requests) || requests < 20) throw new Error('--requests takes a whole number from 20');
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error('--seed takes a whole number');
  const chosen = values.length.map(Number);
  for (const length of chosen) {
    if (length % blockLength !== 0 || length < 64 || length > 393_216) {
      throw new Error('--length takes a multiple of 16 from 64 to 393,216');
    }
  }
  return { lengths: chosen, requests, seed };
}

async function run(options: Options): Promise<number> {
  const random = new Random(options.seed);
  const sidecar = await startLiveSidecar();
  let failed = false;
  try {
    for (const length of options.lengths) {
      const times = await measure(sidecar.port, length, options.requests, random);
      const comparisons = compare(times, random);
      console.log(`\n${count(length)} bytes`);
      for (const line of report(times, comparisons)) console.log(line);
      const found = objections(comparisons);
      for (const objection of found) console.error(`${count(length)} bytes: ${objection}`);
      failed ||= found.length > 0;
    }
  } finally {
    await sidecar.stop();
  }
  return failed ? 1 : 0;
}

function report(times: Times, comparisons: readonly Comparison[]): string[] {
  const columns = (...cells: readonly string[]): string => cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('');
  const widths = [74, 28, 9, 9, 36];
  const seen = detectable(times);
  return [
    columns('class', 'requests', 'median'),
    ...classNames.map((name) => columns(name, count(times[name].length), nanoseconds(median(sorted(times[name]))))),
    '',
    columns('comparison', "Cliff's delta (95 %)", 'z', 'p', 'difference of medians (95 %)', 'told apart'),
    ...comparisons.map(({ name, difference }) => {
      const { delta, deltaInterval, z, p, shift, shiftInterval } = difference;
      return columns(
        name,
        `${signed(delta)} ${range(deltaInterval, signed)}`,
        z.toFixed(1),
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

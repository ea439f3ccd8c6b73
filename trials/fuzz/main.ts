import { parseArgs } from 'node:util';
import { table, type PartReport } from './campaign.ts';
import { runners } from './parts.ts';

interface Options {
  readonly cases: number;
  readonly seed: number;
  readonly chosen: typeof runners;
}

function parseOptions(): Options {
  const { values } = parseArgs({
    options: {
      cases: { type: 'string', default: '1000000' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
      part: { type: 'string' },
    },
  });
  const [cases, seed] = [Number(values.cases), Number(values.seed)];
  const chosen = runners.filter(({ name }) => values.part === undefined || name === values.part);
  if (!Number.isSafeInteger(cases) || cases < 1) throw new Error('--cases takes a whole number from 1');
  if (!Number.isSafeInteger(seed)) throw new Error('--seed takes a whole number');
  if (chosen.length === 0) throw new Error(`unknown part ${values.part}`);
  return { cases, seed, chosen };
}

async function run({ cases, seed, chosen }: Options): Promise<number> {
  console.log(`${cases} cases, seed ${seed}`);
  const shares = chosen.reduce((sum, { share }) => sum + share, 0);
  const reports: PartReport[] = [];
  for (const part of chosen) {
    const report = await part.run(Math.ceil((cases * part.share) / shares), seed);
    console.log(table(report));
    reports.push(report);
  }
  const failures = reports.flatMap(({ name, failure }) => (failure === undefined ? [] : [`\n${name}: ${failure}`]));
  for (const failure of failures) console.error(failure);
  return failures.length === 0 ? 0 : 1;
}

let options: Options | undefined;
try {
  options = parseOptions();
} catch (error) {
  const parts = runners.map(({ name }) => name).join('|');
  console.error(`${(error as Error).message}\n\nusage: npm run fuzz -- [--cases N] [--seed S] [--part ${parts}]`);
}
process.exitCode = options === undefined ? 2 : await run(options);

import { parseArgs } from 'node:util';
import { table, type PartReport } from './campaign.ts';
import { runners } from './parts.ts';

const { values } = parseArgs({
  options: {
    cases: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
    part: { type: 'string' },
  },
});
const cases = Number(values.cases);
const seed = Number(values.seed);
const chosen = runners.filter(({ name }) => values.part === undefined || name === values.part);
if (!Number.isSafeInteger(cases) || cases < 1 || !Number.isSafeInteger(seed) || chosen.length === 0) {
  console.error(`usage: npm run fuzz -- [--cases N] [--seed S] [--part ${runners.map(({ name }) => name).join('|')}]`);
  process.exit(2);
}

console.log(`${cases} cases, seed ${seed}`);
const shares = chosen.reduce((sum, { share }) => sum + share, 0);
const reports: PartReport[] = [];
for (const { share, run } of chosen) {
  const report = await run(Math.ceil((cases * share) / shares), seed);
  console.log(table(report));
  reports.push(report);
}
const failures = reports.flatMap(({ name, failure }) => (failure === undefined ? [] : [`\n${name}: ${failure}`]));
for (const failure of failures) console.error(failure);
process.exitCode = failures.length === 0 ? 0 : 1;

/**
 * Tries all kits: first the vectors, then each kit's own tests, then each client against a running sidecar. `npm run kits -- [--runs N]
 * [KIT…]`.
 */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { Driver } from './conformance/driver.ts';
import { tryVectors } from './conformance/vectors.ts';
import { rotation, Scenarios, Stage } from './end-to-end/scenarios.ts';
import { environmentIn, states, type State } from './end-to-end/sidecar.ts';

/** The programs that each kit needs. If any is missing, the kit counts as absent. */
const programs: Readonly<Record<string, readonly string[]>> = {
  typescript: ['node'],
  php: ['php'],
  python: ['python3'],
  java: ['java', 'javac'],
  go: ['go'],
  ruby: ['ruby'],
  csharp: ['mcs', 'mono'],
};

const root = join(import.meta.dirname, '..');
const drivers = JSON.parse(readFileSync(join(import.meta.dirname, 'drivers.json'), 'utf8')) as Record<string, string>;
const run = promisify(execFile);

const { values, positionals } = parseArgs({
  options: { runs: { type: 'string', default: '100' } },
  allowPositionals: true,
});
const names = positionals.length > 0 ? positionals : Object.keys(drivers);

const isThere = (program: string): boolean =>
  (process.env['PATH'] ?? '').split(delimiter).some((folder) => existsSync(join(folder, program)));

interface Row {
  readonly kit: string;
  readonly outcome: 'passed' | 'failed' | 'absent';
  readonly details: string;
}

/** Runs a kit's own tests. They get a sidecar and all states of a rotation, for the example in the kit's README. */
async function ownTests(kit: string): Promise<readonly string[]> {
  const stage = await Stage.build();
  try {
    const line = (state: State): string => `${state} ${Object.values(environmentIn(state)).join(' ')}`;
    const lines = (Object.keys(states) as State[]).map(line);
    const env = { ...process.env, BASE: stage.url, STATES: lines.join('\n') };
    await run('sh', [join('kits', kit, 'test.sh')], { cwd: root, env, timeout: 300_000 });
    return [];
  } catch (error) {
    const { stdout = '', stderr = '', message } = error as Error & { stdout?: string; stderr?: string };
    return [`own tests: ${message}\n${stdout}${stderr}`];
  } finally {
    await stage.close();
  }
}

async function tryKit(kit: string): Promise<Row> {
  const command = drivers[kit] ?? '';
  const missing = (programs[kit] ?? []).filter((program) => !isThere(program));
  if (missing.length > 0) return { kit, outcome: 'absent', details: `needs ${missing.join(', ')}` };

  const failures: string[] = [];
  const details: string[] = [];
  const driver = new Driver(command, root);
  try {
    const vectors = await tryVectors(driver, { isKit: true });
    failures.push(...vectors.failures);
    details.push(`${vectors.tried} vectors`);
    failures.push(...(await ownTests(kit)));
    const { clients } = (await driver.ask({ op: 'clients' })) as { clients: readonly string[] };
    for (const client of clients) {
      const stage = await Stage.build();
      try {
        const scenarios = new Scenarios(stage, driver, client);
        await scenarios.all(Number(values.runs));
        failures.push(...scenarios.failures.map((failure) => `${client}: ${failure}`));
        details.push(`${client} ${scenarios.tried}`);
        const rotated = await rotation(stage, () => new Driver(command, root), client);
        failures.push(...rotated.map((failure) => `${client}: rotation: ${failure}`));
      } finally {
        await stage.close();
      }
    }
  } catch (error) {
    failures.push(String(error));
  }
  await driver.close();
  for (const failure of failures) console.log(`${kit}: ${failure}`);
  return { kit, outcome: failures.length > 0 ? 'failed' : 'passed', details: details.join(', ') };
}

const rows: Row[] = [];
for (const kit of names) rows.push(await tryKit(kit));

console.log();
for (const { kit, outcome, details } of rows) console.log(`${kit.padEnd(12)}${outcome.padEnd(8)}${details}`);
const count = (outcome: Row['outcome']): number => rows.filter((row) => row.outcome === outcome).length;
console.log(`\n${count('passed')} kits passed, ${count('failed')} failed, ${count('absent')} absent`);
process.exitCode = count('failed') > 0 ? 1 : 0;

import { writeFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { count } from '../../bench/table.ts';
import type { Contents } from '../../test/support/folder.ts';
import { KeepAliveClient } from '../load/client.ts';
import type { Defer } from '../load/stage.ts';
import { setups, startUnder, targetOf, type ResourceOptions } from './setup.ts';
import { askApi, emptyStore, keyEntry, runOn, type Place } from './store-setup.ts';

/** The number of keys to revoke in each phase, and the minimum time between two revocations, in milliseconds. */
const keysOfPhase = 150;
const pause = 50;
/**
 * The longest time that a revocation may take during other work, unless the longest one alone, multiplied by the factor for the median,
 * took even longer. Milliseconds.
 */
const longest = 5_000;
/** The number of accounts that each import adds, and that each apply renames. */
const changed = 5;

/** The reads that run during the revocations. Each of them reads everything there is. */
const reads = [
  'GET /accounts?search=no-such-account',
  'GET /accounts?filter=unused&limit=1000',
  'GET /audit?limit=1000',
  'GET /audit?account=no-such-account&limit=1000',
  'GET /due?limit=1000',
  'GET /graces',
];
/** The number of connections for each read. */
const readers = 5;

interface Times {
  readonly median: number;
  readonly longest: number;
  readonly count: number;
}

/**
 * Revokes keys in both stores: first alone, and then during each command that reads or writes all accounts, while operators search and read
 * the trail.
 */
export async function runRevocations(
  postgres: Place,
  seconds: number,
  defer: Defer,
  options: ResourceOptions,
): Promise<{ readonly lines: string[][]; readonly problems: string[] }> {
  const { accounts = { file: 1_000, postgres: 40_000 } } = options;
  const runs = [await runIn(undefined, accounts.file, seconds, defer, options)];
  if (postgres !== undefined) runs.push(await runIn(postgres, accounts.postgres, seconds, defer, options));
  return { lines: runs.flatMap(({ lines }) => lines), problems: runs.flatMap(({ problems }) => problems) };
}

async function runIn(
  place: Place,
  accounts: number,
  seconds: number,
  defer: Defer,
  { program, mostSlowed = 5 }: ResourceOptions,
): Promise<{ readonly lines: string[][]; readonly problems: string[] }> {
  const name = place === undefined ? 'file' : 'PostgreSQL';
  const { folder } = await emptyStore(place, defer);
  const run = (...args: readonly string[]): Promise<void> => runOn(folder, program, 'accounts', ...args);
  const write = (file: string, lines: readonly string[]): string => {
    writeFileSync(folder.file(file), `${lines.join('\n')}\n`);
    return folder.file(file);
  };
  await run('import', write('accounts.ndjson', accountLines(accounts)));
  /** The commands that are repeated during the revocations. */
  const commands: Readonly<Record<Beside, (turn: number) => Promise<void>>> = {
    rekey: (turn) => run('rekey', '--new-master-key-file', folder.file(`master-key-${turn % 2}`)),
    import: (turn) => run('import', write('import.ndjson', linesOf(`new-${turn}`, `Store ${turn}`))),
    export: () => run('export'),
    apply: (turn) => run('apply', write('apply.ndjson', linesOf('a', `Name ${turn}`))),
  };
  const { deployed } = setups();
  const sidecar = await startUnder(deployed, folder.file('sidecar.yaml'), defer, program);
  const { operators } = targetOf(sidecar, deployed.limits);
  const problems: string[] = [];
  const time = (seconds * 1_000) / phases.length;
  const alone = await revokeFor(operators, 'alone', time, problems);
  const lines: string[][] = [
    [name, count(accounts), 'alone', '', '', count(alone.count), ms(alone.median), ms(alone.longest)],
  ];
  for (const command of besides) {
    const bulk = new BulkWork(operators, problems, commands[command]);
    const beside = await revokeFor(operators, command, time, problems);
    await bulk.end();
    if (beside.count === 0 || bulk.reads === 0 || bulk.commands === 0)
      problems.push(`${command}: nothing was compared`);
    if (beside.median > mostSlowed * alone.median)
      problems.push(`${command}: median ${ms(beside.median)}, alone ${ms(alone.median)}`);
    if (beside.longest > Math.max(longest, mostSlowed * alone.longest))
      problems.push(`${command}: a revocation took ${ms(beside.longest)}`);
    const counts = [bulk.commands, bulk.reads, beside.count].map(count);
    lines.push([name, count(accounts), command, ...counts, ms(beside.median), ms(beside.longest)]);
  }
  sidecar.signal('SIGTERM');
  await sidecar.ended;
  return { lines, problems: problems.map((problem) => `revocations, ${name}: ${problem}`) };
}

/** The commands that read or write all accounts. */
const besides = ['rekey', 'import', 'export', 'apply'] as const;
type Beside = (typeof besides)[number];
const phases = ['alone', ...besides] as const;
type Phase = (typeof phases)[number];

function ms(time: number): string {
  return `${time.toFixed(1)} ms`;
}

/** Lines of an import file, for accounts without keys. */
function linesOf(id: string, name: string): string[] {
  return Array.from({ length: changed }, (_, i) => JSON.stringify({ id: `${id}-${i}`, name, keys: [] }));
}

/** Accounts to search and change, and one account for each phase, whose keys are revoked. */
function accountLines(accounts: number): string[] {
  // Accounts that share a key cause warnings, each with a position in the file that only the slow parser knows.
  const encryption = (i: number): Contents => ({
    test: { enabled: true, key: `key-${i}`.padEnd(32, 'k'), iv: 'i'.repeat(16) },
  });
  const others = Array.from({ length: accounts }, (_, i) => ({
    id: `a-${i}`,
    name: `Store ${i}`,
    keys: [keyEntry(`k-${i}`)],
    encryption: encryption(i),
  }));
  const robbed = phases.map((phase) => ({
    id: `robbed-${phase}`,
    name: 'Robbed',
    keys: Array.from({ length: keysOfPhase }, (_, i) => keyEntry(`${phase}-${i}`)),
  }));
  return [...others, ...robbed].map((account) => JSON.stringify(account));
}

/** Revokes the keys of a phase one after another. */
async function revokeFor(port: number, phase: Phase, time: number, problems: string[]): Promise<Times> {
  const client = new KeepAliveClient(port);
  const times: number[] = [];
  const begun = performance.now();
  for (let i = 0; i < keysOfPhase && performance.now() < begun + time; i += 1) {
    const begin = performance.now();
    const outcome = await askApi(client, `POST /accounts/robbed-${phase}/keys/${phase}-${i}/revoke`, '{}');
    times.push(performance.now() - begin);
    if (outcome.kind !== 'answered' || outcome.status !== 200) problems.push(JSON.stringify(outcome));
    await setTimeout(Math.max(pause, begun + ((i + 1) * time) / keysOfPhase - performance.now()));
  }
  client.close();
  times.sort((a, b) => a - b);
  return { median: times[times.length >> 1] ?? 0, longest: times.at(-1) ?? 0, count: times.length };
}

/** Operators' read requests, beside a sequence of commands. */
class BulkWork {
  reads = 0;
  commands = 0;
  #ended = false;
  readonly #running: Promise<unknown>;

  /** @param command receives the number of times that it has already run */
  constructor(port: number, problems: string[], command: (turn: number) => Promise<void>) {
    const lanes = reads.flatMap((read) => Array.from({ length: readers }, () => this.#read(port, read, problems)));
    this.#running = Promise.all([...lanes, this.#repeat(command)]);
  }

  async end(): Promise<void> {
    this.#ended = true;
    await this.#running;
  }

  async #read(port: number, read: string, problems: string[]): Promise<void> {
    const client = new KeepAliveClient(port);
    while (!this.#ended) {
      const outcome = await askApi(client, read);
      this.reads += 1;
      // A read may be refused in favour of other requests, but must never fail.
      if (outcome.kind !== 'answered' || ![200, 503].includes(outcome.status)) problems.push(JSON.stringify(outcome));
    }
    client.close();
  }

  async #repeat(command: (turn: number) => Promise<void>): Promise<void> {
    while (!this.#ended) {
      this.commands += 1;
      await command(this.commands);
    }
  }
}

import { writeFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { count } from '../../bench/table.ts';
import { KeepAliveClient } from '../load/client.ts';
import type { Defer } from '../load/stage.ts';
import { setups, startUnder, targetOf, type ResourceOptions } from './setup.ts';
import { askApi, emptyStore, keyEntry, runOn, type Place } from './store-setup.ts';

/** Milliseconds between two revocations. */
const pause = 50;
/** How long revocations are measured alone first, of the time of the whole trial. */
const aloneShare = 0.5;
/** A single revocation may take this time, whatever else is done, or as much longer than alone as the median. Milliseconds. */
const longest = 5_000;
/** Keys to be revoked: an account has at most 1,000. */
const keysOfAccount = 900;

/** The reads that go on during the revocations: each looks at everything there is. */
const reads = [
  'GET /accounts?search=no-such-account',
  'GET /accounts?filter=unused&limit=1000',
  'GET /audit?limit=1000',
  'GET /audit?account=no-such-account&limit=1000',
  'GET /due?limit=1000',
  'GET /graces',
];
/** Connections for each of them. */
const readers = 5;

interface Times {
  readonly median: number;
  readonly longest: number;
  readonly count: number;
}

/** Keys are revoked in both stores, alone and while others rekey, search and read the trail. */
export async function runRevocations(
  postgres: Place,
  seconds: number,
  defer: Defer,
  options: ResourceOptions,
): Promise<{ readonly lines: string[][]; readonly problems: string[] }> {
  const { accounts = { file: 200, postgres: 40_000 } } = options;
  const runs = [await runIn(undefined, accounts.file, seconds, defer, options)];
  if (postgres !== undefined) runs.push(await runIn(postgres, accounts.postgres, seconds, defer, options));
  return { lines: runs.map(({ line }) => line), problems: runs.flatMap(({ problems }) => problems) };
}

async function runIn(
  place: Place,
  accounts: number,
  seconds: number,
  defer: Defer,
  { program, mostSlowed = 5 }: ResourceOptions,
): Promise<{ readonly line: string[]; readonly problems: string[] }> {
  const name = place === undefined ? 'file' : 'PostgreSQL';
  const { folder } = await emptyStore(place, defer);
  writeFileSync(folder.file('accounts.ndjson'), `${accountLines(accounts).join('\n')}\n`);
  await runOn(folder, program, 'accounts', 'import', folder.file('accounts.ndjson'));
  const { deployed } = setups();
  const sidecar = await startUnder(deployed, folder.file('sidecar.yaml'), defer, program);
  const { operators } = targetOf(sidecar, deployed.limits);
  const problems: string[] = [];
  const revoker = new Revoker(operators, problems);
  const alone = await revoker.revokeFor(seconds * 1_000 * aloneShare);
  const bulk = new BulkWork(operators, problems, (key) =>
    runOn(folder, program, 'accounts', 'rekey', '--new-master-key-file', folder.file(`master-key-${key}`)),
  );
  const beside = await revoker.revokeFor(seconds * 1_000);
  await bulk.end();
  revoker.close();
  sidecar.signal('SIGTERM');
  await sidecar.ended;
  if (beside.count === 0 || bulk.reads === 0 || bulk.rekeys === 0) problems.push('nothing was compared');
  if (beside.median > mostSlowed * alone.median)
    problems.push(`median ${ms(beside.median)}, alone ${ms(alone.median)}`);
  if (beside.longest > Math.max(longest, mostSlowed * alone.longest))
    problems.push(`a revocation took ${ms(beside.longest)}`);
  const line = [name, count(accounts), count(bulk.reads), count(bulk.rekeys), count(beside.count)];
  line.push(ms(alone.median), ms(beside.median), ms(beside.longest));
  return { line, problems: problems.map((problem) => `revocations, ${name}: ${problem}`) };
}

function ms(time: number): string {
  return `${time.toFixed(1)} ms`;
}

/** Accounts to be searched and rekeyed, and one whose keys are revoked. */
function accountLines(accounts: number): string[] {
  const encryption = { test: { enabled: true, key: 'k'.repeat(32), iv: 'i'.repeat(16) } };
  const others = Array.from({ length: accounts }, (_, i) =>
    JSON.stringify({ id: `a-${i}`, name: `Store ${i}`, keys: [keyEntry(`k-${i}`)], encryption }),
  );
  const keys = Array.from({ length: keysOfAccount }, (_, i) => keyEntry(`lost-${i}`));
  return [...others, JSON.stringify({ id: 'robbed', name: 'Robbed', keys })];
}

/** Revokes one key after the other. */
class Revoker {
  readonly #client: KeepAliveClient;
  readonly #problems: string[];
  #revoked = 0;

  constructor(port: number, problems: string[]) {
    this.#client = new KeepAliveClient(port);
    this.#problems = problems;
  }

  async revokeFor(time: number): Promise<Times> {
    const times: number[] = [];
    for (const end = performance.now() + time; performance.now() < end && this.#revoked < keysOfAccount;) {
      const begin = performance.now();
      const outcome = await askApi(this.#client, `POST /accounts/robbed/keys/lost-${this.#revoked}/revoke`, '{}');
      times.push(performance.now() - begin);
      this.#revoked += 1;
      if (outcome.kind !== 'answered' || outcome.status !== 200) this.#problems.push(JSON.stringify(outcome));
      await setTimeout(pause);
    }
    times.sort((a, b) => a - b);
    return { median: times[times.length >> 1] ?? 0, longest: times.at(-1) ?? 0, count: times.length };
  }

  close(): void {
    this.#client.close();
  }
}

/** Reads by operators, and one rekey after the other. */
class BulkWork {
  reads = 0;
  rekeys = 0;
  #ended = false;
  readonly #running: Promise<unknown>;

  /** @param rekey wraps all credentials with the master key of this number */
  constructor(port: number, problems: string[], rekey: (key: number) => Promise<void>) {
    const lanes = reads.flatMap((read) => Array.from({ length: readers }, () => this.#read(port, read, problems)));
    this.#running = Promise.all([...lanes, this.#rekey(rekey)]);
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
      // A read may be refused for others, never fail.
      if (outcome.kind !== 'answered' || ![200, 503].includes(outcome.status)) problems.push(JSON.stringify(outcome));
    }
    client.close();
  }

  async #rekey(rekey: (key: number) => Promise<void>): Promise<void> {
    while (!this.#ended) {
      this.rekeys += 1;
      await rekey(this.rekeys % 2);
    }
  }
}

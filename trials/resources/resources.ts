import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { count } from '../../bench/table.ts';
import { createAuthority } from '../../test/support/certificates.ts';
import { workedExamples } from '../../test/support/memory-bound.ts';
import type { Findings } from '../load/command-line.ts';
import { ConfigFolder } from '../load/config-folder.ts';
import { seenTwice, startCore } from '../load/core.ts';
import { pairOf } from '../load/pair.ts';
import { startLoadedSidecar } from '../load/sidecar.ts';
import type { Defer } from '../load/stage.ts';
import type { Target } from './attack.ts';
import { contentsUnder } from './contents.ts';
import { Merchants } from './merchants.ts';
import { heldBy, limitUsed } from './held.ts';

const mebibyte = 1_048_576;

/** How long it may take to release all resources after the attack. Milliseconds. */
const settling = 15_000;

/** How long merchants are alone first: a program that has just started is several times slower. Milliseconds. */
const warmUp = 2_000;

/** The sidecar with one amount of memory, with the limits that docs/operators/capacity.md works out for it. */
interface Setup {
  readonly name: string;
  readonly mebibytes: number;
  readonly semiSpace: number;
  readonly limits: Target['limits'] & { readonly requestBody: number; readonly buffered: number };
}

function setups(): readonly Setup[] {
  const [, small, deployed] = workedExamples(readFileSync('docs/operators/capacity.md', 'utf8'));
  if (small === undefined || deployed === undefined) throw new Error('docs/operators/capacity.md has no such examples');
  const setup = (name: string, mebibytes: number, { semiSpace, ...terms }: typeof small): Setup => {
    const { requestBody, buffered, header, inFlight, connections } = terms;
    // `headers` has its default.
    const limits = { requestBody, buffered, header, headers: 100, inFlight, connections };
    return { name, mebibytes, semiSpace: semiSpace / mebibyte, limits };
  };
  return [setup('as in deploy/', 256, deployed), setup('in 128 MiB', 128, small)];
}

export interface ResourceOptions {
  /** The program that `node` runs. One that is not compiled may take `more` bytes. */
  readonly program: string;
  readonly more?: number;
  /** The longest time of a response to a merchant during the attack. Milliseconds. */
  readonly longestTime?: number;
}

/** Runs all attacks at once with each amount of memory, while merchants send requests. */
export async function runResources(seconds: number, defer: Defer, options: ResourceOptions): Promise<Findings> {
  const runs = [];
  for (const setup of setups()) runs.push(await runUnder(setup, seconds, defer, options));
  return {
    title: `${seconds} seconds each`,
    tables: [[['', 'requests', 'median', 'longest', 'memory', 'of'], ...runs.map(({ line }) => line)]],
    problems: runs.flatMap(({ problems }) => problems),
  };
}

async function runUnder(
  { name, mebibytes, semiSpace, limits }: Setup,
  seconds: number,
  defer: Defer,
  { program, more = 0, longestTime = 1_000 }: ResourceOptions,
): Promise<{ readonly line: string[]; readonly problems: string[] }> {
  const core = await startCore('one', defer);
  const pair = pairOf(core, await startCore('two', defer));
  const attackers = fork(fileURLToPath(new URL('attackers.ts', import.meta.url)), { stdio: 'inherit' });
  defer(() => void attackers.kill('SIGKILL'));
  // They stand for other machines: their CPU time must not slow down the sidecar or the clocks of the merchants.
  setPriority(attackers.pid ?? 0, constants.priority.PRIORITY_LOW);
  const [attackersCore] = (await once(attackers, 'message')) as [string];
  const tls = createAuthority().issue('IP:127.0.0.1');
  const folder = new ConfigFolder(contentsUnder(limits, pair, attackersCore, tls), defer);
  const sidecar = await startLoadedSidecar(folder.file('sidecar.yaml'), defer, {
    program,
    listeners: 3,
    // As in the image. The heap is limited to a share of the container's memory, and there is no container here.
    nodeOptions: [
      `--max-semi-space-size=${semiSpace}`,
      `--max-old-space-size=${Math.floor(0.35 * mebibytes)}`,
      '--no-memory-pool-share-memory-on-teardown',
    ],
    env: { MALLOC_ARENA_MAX: '1' },
  });
  // Lines of the log wait for a reader, too.
  sidecar.stopReading();

  const merchants = new Merchants(pair, sidecar.port);
  const portOf = (url: string | undefined): number => Number(new URL(url ?? '').port);
  const [admin, operators] = [portOf(sidecar.adminUrl), portOf(sidecar.operatorsUrl)];
  await setTimeout(warmUp);
  merchants.startMeasuring();
  attackers.send({ merchants: sidecar.port, admin, operators, limits } satisfies Target);
  let held = 0;
  const end = performance.now() + seconds * 1_000;
  while (performance.now() < end && sidecar.isRunning()) {
    await setTimeout(20);
    held = Math.max(held, heldBy(sidecar.pid));
  }
  // Without attackers the remaining requests get their responses.
  attackers.kill('SIGKILL');
  const problems = await merchants.end(longestTime);
  problems.push(...seenTwice(core));
  if (!sidecar.isRunning()) problems.push(`the process has ended: ${sidecar.errors().slice(-2_000)}`);
  else problems.push(...(await unreleased(sidecar.adminUrl)));
  if (held > mebibytes * mebibyte + more) problems.push(`${Math.ceil(held / mebibyte)} MiB were held`);
  sidecar.signal('SIGTERM');
  await sidecar.ended;

  const { requests, median, longest } = merchants.figures;
  const line = [name, count(requests), `${median.toFixed(0)} ms`, `${longest.toFixed(0)} ms`];
  line.push(`${Math.ceil((held - more) / mebibyte)} MiB`, `${mebibytes} MiB`);
  return { line, problems: problems.map((problem) => `${name}: ${problem}`) };
}

/** The resources that are not released after the attack. */
async function unreleased(adminUrl: string): Promise<string[]> {
  for (const end = performance.now() + settling; ; await setTimeout(200)) {
    const used = await limitUsed(adminUrl).catch(() => ({ metrics: Infinity }));
    const held = Object.entries(used).filter(([, value]) => value > 0);
    if (held.length === 0) return [];
    if (performance.now() > end) return held.map(([limit, value]) => `${value} of ${limit} are not released`);
  }
}

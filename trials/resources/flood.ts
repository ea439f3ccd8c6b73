import { setTimeout } from 'node:timers/promises';
import { count } from '../../bench/table.ts';
import { createAuthority } from '../../test/support/certificates.ts';
import { MountedFolder } from '../../test/support/folder.ts';
import { seenTwice, startCore } from '../load/core.ts';
import { pairOf } from '../load/pair.ts';
import type { Defer } from '../load/stage.ts';
import { contentsUnder } from './contents.ts';
import { heldBy, limitUsed } from './held.ts';
import { Merchants, pairExchanges } from './merchants.ts';
import { Operator } from './operator.ts';
import { mebibyte, startAttackers, startUnder, targetOf, type ResourceOptions, type Setup } from './setup.ts';

/** How long it may take after the attack until all resources are released. Milliseconds. */
const settling = 15_000;

/** How long merchants send requests alone at first, because a program that has just started is several times slower. Milliseconds. */
const warmUp = 2_000;

/** The bytes that are charged for several decoders of compressed responses. */
const someDecoders = 2 * 262_144;

/** Runs all attacks that need no secret key at once, while merchants and an operator send requests. */
export async function runFlood(
  setup: Setup,
  attack: 'without a secret key' | 'by compressed responses',
  seconds: number,
  defer: Defer,
  { program, more = 0, longestTime = 1_000 }: ResourceOptions,
): Promise<{ readonly line: string[]; readonly problems: string[] }> {
  const { mebibytes, limits } = setup;
  const name = `${setup.name}, ${attack}`;
  const core = await startCore('one', defer);
  const pair = pairOf(core, await startCore('two', defer));
  const attackers = await startAttackers(defer);
  const tls = createAuthority().issue('IP:127.0.0.1');
  const folder = new MountedFolder(contentsUnder(limits, pair, attackers.core, tls), defer);
  const sidecar = await startUnder(setup, folder.file('sidecar.yaml'), defer, program);
  // The reader stops, so that log lines also have to wait.
  sidecar.stopReading();

  const target = targetOf(sidecar, limits);
  const merchants = new Merchants(sidecar.port, pairExchanges(pair));
  const operator = new Operator(target.operators);
  await setTimeout(warmUp);
  merchants.startMeasuring();
  attackers.attack(attack, target);
  let held = 0;
  const end = performance.now() + seconds * 1_000;
  while (performance.now() < end && sidecar.isRunning()) {
    await setTimeout(20);
    held = Math.max(held, heldBy(sidecar.pid));
  }
  const problems = await operator.leave();
  // This is checked only in this attack, because when all attacks run at once, hardly any of these requests gets a slot.
  if (attack === 'by compressed responses' && !(await chargesDecoders(sidecar.adminUrl))) {
    problems.push('no decoders were charged');
  }
  // Without attackers, the remaining requests get their responses.
  attackers.stop();
  problems.push(...(await merchants.end(longestTime)), ...seenTwice(core));
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

/** Whether the sidecar charges for decoders while it holds them. */
async function chargesDecoders(adminUrl: string): Promise<boolean> {
  for (const end = performance.now() + settling; performance.now() < end; await setTimeout(200)) {
    const { buffered = 0 } = await limitUsed(adminUrl).catch((): Awaited<ReturnType<typeof limitUsed>> => ({}));
    if (buffered >= someDecoders) return true;
  }
  return false;
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

import { setTimeout } from 'node:timers/promises';
import { MountedFolder } from '../../test/support/folder.ts';
import { seenTwice } from '../load/core.ts';
import { startLoadedSidecar } from '../load/sidecar.ts';
import type { Defer } from '../load/stage.ts';
import { SteadyLoad } from './load.ts';
import type { Part } from './part.ts';
import { startSetup } from './setup.ts';

/**
 * Changes the configuration of one sidecar repeatedly under load. No request may fail or see parts of two
 * configurations.
 */
export async function runReloads(loops: number, defer: Defer): Promise<Part> {
  const { pair, tls, contentsOf } = await startSetup(defer);
  const [one, two] = pair;
  const folder = new MountedFolder(contentsOf(one, two), defer);
  const sidecar = await startLoadedSidecar(folder.file('sidecar.yaml'), defer, { listeners: 3 });
  const load = new SteadyLoad(pair, sidecar.port, tls, 'reload');
  for (let loop = 1; loop <= loops; loop += 1) {
    folder.swap(loop % 2 === 0 ? contentsOf(one, two) : contentsOf(two, one));
    await sidecar.untilEntries('configuration reloaded', loop);
    // Usually, some requests are sent between two reloads, but not always.
    if (loop % 4 !== 0) await setTimeout(Math.random() * 50);
  }
  await load.end();
  sidecar.signal('SIGTERM');
  const { code } = await sidecar.ended;
  const problems = [...load.problems, ...seenTwice(one.core, two.core)];
  if (code !== 0) problems.push(`reloads: ended with ${code} ${sidecar.errors()}`);
  if (load.refused + load.notTaken > 0) problems.push(`reloads: ${load.refused + load.notTaken} connections not taken`);
  const [first, second] = [one.core.seen.size, two.core.seen.size];
  // The result counts only if requests reached both versions.
  if (Math.min(first, second) < loops) problems.push(`reloads: ${first} and ${second} requests at the two cores`);
  return {
    name: 'reloads under load',
    loops,
    answered: load.answered,
    notTaken: 0,
    keys: undefined,
    slowest: undefined,
    problems,
  };
}

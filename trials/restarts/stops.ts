import { setTimeout } from 'node:timers/promises';
import { MountedFolder } from '../../test/support/folder.ts';
import { seenTwice } from '../load/core.ts';
import { startLoadedSidecar } from '../load/sidecar.ts';
import type { Defer } from '../load/stage.ts';
import { SteadyLoad } from './load.ts';
import type { Part } from './part.ts';
import { startSetup } from './setup.ts';

/** Stops sidecars with SIGTERM under load. Accepted requests must get a response, and the exit code must be 0. */
export async function runStops(loops: number, defer: Defer): Promise<Part> {
  const { pair, tls, contentsOf } = await startSetup(defer);
  const [one, two] = pair;
  const folder = new MountedFolder(contentsOf(one, two), defer);
  const problems: string[] = [];
  let [answered, notTaken, slowest] = [0, 0, 0];
  for (let loop = 1; loop <= loops; loop += 1) {
    const begin = performance.now();
    const sidecar = await startLoadedSidecar(folder.file('sidecar.yaml'), defer, { listeners: 3 });
    slowest = Math.max(slowest, performance.now() - begin);
    const load = new SteadyLoad(pair, sidecar.port, tls, `stop-${loop}`);
    await setTimeout(100 + Math.random() * 200);
    sidecar.signal('SIGTERM');
    await load.finished();
    const { code, signal } = await sidecar.ended;
    if (code !== 0) problems.push(`stop ${loop}: ended with ${code ?? signal} ${sidecar.errors()}`);
    if (load.answered === 0) problems.push(`stop ${loop}: nothing was answered`);
    problems.push(...load.problems);
    answered += load.answered;
    notTaken += load.refused + load.notTaken;
  }
  problems.push(...seenTwice(one.core, two.core));
  return { name: 'SIGTERM under load', loops, answered, notTaken, keys: undefined, slowest, problems };
}

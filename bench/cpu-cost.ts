import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Clients } from './clients.ts';
import { cpuNanoseconds } from './cpu-time.ts';
import { exchangesOf } from './exchanges.ts';
import { faultsOf } from './identity.ts';
import type { Peer } from './peers.ts';
import { startPeer, type Server } from './rounds.ts';
import type { Stage } from './stage.ts';
import { percentile, spreadOf } from './statistics.ts';
import type { Workload } from './workloads.ts';

/** The cost of a request at several peers that were measured together. */
export interface CpuCosts {
  readonly workload: Workload;
  readonly pace: CostPace;
  /** The first peer is the one with which the others are compared. */
  readonly peers: readonly CpuCost[];
}

/** The cost of a request at one peer, with one figure for each set of processes. */
interface CpuCost {
  readonly peer: string;
  readonly title: string;
  /** The cost in CPU microseconds. */
  readonly microseconds: readonly number[];
  /** The ratio to the first peer's cost. */
  readonly ratios: readonly number[];
}

/** How the cost is measured. */
export interface CostPace {
  /** The number of sets of fresh processes. Several are needed, because V8 compiles each process a little differently. */
  readonly sets: number;
  /** The number of time windows in each set, and their length in milliseconds. */
  readonly windows: number;
  readonly window: number;
  /** Seconds of load for each peer before the first window of a set. */
  readonly warmUp: number;
}

/**
 * Measures small differences on a machine that is not quiet. All peers run under load on one core at the same time, so
 * that a disturbance slows all of them down within milliseconds. Each window compares the costs with that of the first
 * peer, and the median of the windows counts. The microseconds are these ratios times the lower quartile of the first
 * peer's cost, because a disturbance can only raise a cost.
 */
export async function cpuCosts(
  stage: Stage,
  workload: Workload,
  peers: readonly Peer[],
  pace: CostPace,
): Promise<CpuCosts> {
  const sets: (readonly (readonly number[])[])[] = [];
  for (let set = 0; set < pace.sets; set += 1) sets.push(await oneSet(stage, workload, peers, pace));
  const ofFirst = sets.map(([first = []]) =>
    percentile(
      first.toSorted((a, b) => a - b),
      25,
    ),
  );
  const costs = peers.map(({ name: peer, title }, i): CpuCost => {
    const ratios = sets.map((costs) => {
      const [first = [], own = []] = [costs[0], costs[i]];
      return spreadOf(own.map((cost, window) => cost / (first[window] ?? NaN))).median;
    });
    return { peer, title, ratios, microseconds: ratios.map((ratio, set) => ratio * (ofFirst[set] ?? NaN)) };
  });
  return { workload, pace, peers: costs };
}

/** The CPU microseconds of a request, by peer and window. */
async function oneSet(
  stage: Stage,
  workload: Workload,
  peers: readonly Peer[],
  { windows, window, warmUp }: CostPace,
): Promise<readonly (readonly number[])[]> {
  const directory = join(stage.directory, 'costs');
  mkdirSync(directory);
  const requests = exchangesOf(workload).map(({ request }) => request);
  const servers: Server[] = [];
  let clients: Clients[] = [];
  try {
    for (const peer of peers) servers.push(await startPeer(stage, directory, peer));
    for (const { peer, port } of servers) {
      const faults = await faultsOf(port, workload, peer.identifies);
      if (faults.length > 0) throw new Error(`${peer.name} does not do ${workload.name} right:\n${faults.join('\n')}`);
    }
    clients = servers.map(({ port }) => new Clients(port, requests, workload.connections));
    await sleep(warmUp * peers.length * 1_000);
    const costs = peers.map((): number[] => []);
    const used = (): { cpu: number; answered: number }[] =>
      servers.map(({ process }, i) => ({ cpu: cpuNanoseconds(process.pid), answered: clients[i]?.answered ?? NaN }));
    let before = used();
    for (let at = 0; at < windows; at += 1) {
      await sleep(window);
      const after = used();
      for (const [i, { cpu, answered }] of after.entries()) {
        const { cpu: cpuBefore = NaN, answered: answeredBefore = NaN } = before[i] ?? {};
        costs[i]?.push((cpu - cpuBefore) / 1_000 / (answered - answeredBefore));
      }
      before = after;
    }
    return costs;
  } finally {
    for (const each of clients) each.stop();
    await Promise.all(servers.map(({ process }) => process.stop()));
    rmSync(directory, { recursive: true, force: true });
  }
}

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { exchangesOf } from './exchanges.ts';
import { faultsOf } from './identity.ts';
import { runFixedRate, runLoad, writeRequests } from './load.ts';
import type { Peer } from './peers.ts';
import { freePort } from '../test/support/free-port.ts';
import type { Pace } from './rounds.ts';
import type { Stage } from './stage.ts';
import { spreadOf, type Spread } from './statistics.ts';
import type { Workload } from './workloads.ts';

/** The latency that a peer adds to that of the upstream alone, at one rate. Milliseconds, over all rounds. */
export interface AddedLatency {
  readonly peer: string;
  /** Requests a second. */
  readonly rate: number;
  readonly p50: Spread;
  readonly p99: Spread;
}

/** The rates at which users usually compare proxies. */
const rates = [200, 2_000] as const;

/**
 * In each round, measures the upstream alone, and then each peer in front of it at the same rate, and subtracts.
 *
 * @param workload must be one that the upstream can also serve alone: passed through, not sealed
 */
export async function addedLatency(
  stage: Stage,
  workload: Workload,
  peers: readonly Peer[],
  { rounds, seconds, warmUp }: Pick<Pace, 'rounds' | 'seconds' | 'warmUp'>,
): Promise<AddedLatency[]> {
  const directory = join(stage.directory, 'added-latency');
  mkdirSync(directory);
  const file = join(directory, 'requests');
  const requests = exchangesOf(workload).map(({ request }) => request);
  writeRequests(file, requests);
  const servers: { readonly name: string; readonly port: number }[] = [];
  for (const peer of peers) {
    const place = { directory: join(directory, peer.name), port: await freePort(), upstream: stage.upstream };
    mkdirSync(place.directory);
    const settings = { cores: stage.cores.server, output: join(place.directory, 'output.log') };
    await stage.processes.startServer(peer.prepare(place), place.port, settings);
    const faults = await faultsOf(place.port, workload, peer.identifies);
    if (faults.length > 0) throw new Error(`${peer.name} does not do ${workload.name} right:\n${faults.join('\n')}`);
    if (warmUp > 0) await runLoad(place.port, file, workload.connections, peer.runsOnNode ? warmUp : 1);
    servers.push({ name: peer.name, port: place.port });
  }

  const added: AddedLatency[] = [];
  for (const rate of rates) {
    const differences = new Map(servers.map(({ name }) => [name, { p50: [] as number[], p99: [] as number[] }]));
    for (let round = 0; round < rounds; round += 1) {
      const alone = await runFixedRate(stage.upstream, file, rate, seconds);
      for (const { name, port } of servers) {
        const { p50, p99 } = await runFixedRate(port, file, rate, seconds);
        differences.get(name)?.p50.push(p50 - alone.p50);
        differences.get(name)?.p99.push(p99 - alone.p99);
      }
    }
    for (const [peer, { p50, p99 }] of differences) added.push({ peer, rate, p50: spreadOf(p50), p99: spreadOf(p99) });
  }
  return added;
}

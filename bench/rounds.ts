import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cpuSeconds, peakMemory } from './cpu-time.ts';
import { exchangesOf } from './exchanges.ts';
import { faultsOf } from './identity.ts';
import { runFixedRate, runLoad, writeRequests, type Latency, type Load } from './load.ts';
import type { Peer } from './peers.ts';
import { freePort } from '../test/support/free-port.ts';
import type { Running } from './processes.ts';
import type { Stage } from './stage.ts';
import type { Workload } from './workloads.ts';

/** The figures of one peer in one round. */
export interface Sample {
  readonly peer: string;
  readonly requestsPerCpuSecond: number;
  readonly requestsPerSecond: number;
  /** The share of its core that the peer used. Below 0.9, it had to wait for the load. */
  readonly busy: number;
  /** Latencies at a fixed rate; absent if the workload has none. */
  readonly latency?: Latency & { readonly rate: number };
}

/** The figures of a workload, by round. */
export interface Result {
  readonly workload: Workload;
  readonly rounds: readonly (readonly Sample[])[];
  /** The peak memory of each peer in bytes, over all rounds. */
  readonly peakMemory: Readonly<Record<string, number>>;
}

export interface Pace {
  readonly rounds: number;
  /** Seconds of load for each peer in each round. */
  readonly seconds: number;
  /** Seconds of load before the first round, for peers on Node. */
  readonly warmUp: number;
  readonly latency: boolean;
  /** The rate for latencies, in requests per second. By default, it is half of each peer's maximum. */
  readonly rate: number | undefined;
}

/** Above this rate, the client that keeps the rate might be late itself. */
const highestRate = 10_000;

/** Measures peers with one workload in several rounds. In each round, the peers are measured one after another. */
export async function measure(stage: Stage, workload: Workload, peers: readonly Peer[], pace: Pace): Promise<Result> {
  const directory = join(stage.directory, workload.name);
  mkdirSync(directory);
  const file = join(directory, 'requests');
  writeRequests(
    file,
    exchangesOf(workload).map(({ request }) => request),
  );
  const servers: Server[] = [];
  try {
    for (const peer of peers) servers.push(await startPeer(stage, directory, peer));
    for (const { peer, port } of servers) {
      const faults = await faultsOf(port, workload, peer.identifies);
      if (faults.length > 0) throw new Error(`${peer.name} does not do ${workload.name} right:\n${faults.join('\n')}`);
    }
    for (const { peer, port } of servers) {
      const seconds = peer.runsOnNode ? pace.warmUp : Math.min(1, pace.warmUp);
      if (seconds > 0) await runLoad(port, file, workload.connections, seconds);
    }

    const rounds: Sample[][] = [];
    for (let round = 0; round < pace.rounds; round += 1) {
      const samples: Sample[] = [];
      // Each round begins with a different peer, so that no peer always follows the same one.
      const order = [...servers.slice(round % servers.length), ...servers.slice(0, round % servers.length)];
      for (const server of order) samples.push(await sample(server, workload, file, pace));
      rounds.push(samples);
    }
    const memory = servers.map(({ peer, process }) => [peer.name, peakMemory(process.pid)] as const);
    return { workload, rounds, peakMemory: Object.fromEntries(memory) };
  } finally {
    await Promise.all(servers.map(({ process }) => process.stop()));
    rmSync(directory, { recursive: true, force: true });
  }
}

/** A running peer. */
export interface Server {
  readonly peer: Peer;
  readonly port: number;
  readonly process: Running;
}

/** Starts a peer in a separate folder below `parent`. */
export async function startPeer(stage: Stage, parent: string, peer: Peer): Promise<Server> {
  const directory = join(parent, peer.name);
  mkdirSync(directory);
  const port = await freePort();
  const command = peer.prepare({ directory, port, upstream: stage.upstream });
  const process = await stage.processes.startServer(command, port, {
    cores: stage.cores.server,
    output: join(directory, 'output.log'),
  });
  return { peer, port, process };
}

async function sample({ peer, port, process }: Server, workload: Workload, file: string, pace: Pace): Promise<Sample> {
  const before = cpuSeconds(process.pid);
  const load = await runLoad(port, file, workload.connections, pace.seconds);
  const used = cpuSeconds(process.pid) - before;
  complain(peer, workload, load);
  const requestsPerSecond = load.requests / load.seconds;
  const throughput = {
    peer: peer.name,
    requestsPerCpuSecond: load.requests / used,
    requestsPerSecond,
    busy: used / load.seconds,
  };
  if (!workload.latency || !pace.latency) return throughput;
  const rate = Math.round(pace.rate ?? Math.min(highestRate, requestsPerSecond / 2));
  return { ...throughput, latency: { rate, ...(await runFixedRate(port, file, rate, pace.seconds)) } };
}

/** @throws if a peer sent unexpected responses */
function complain(peer: Peer, workload: Workload, { requests, refused, failed }: Load): void {
  const expected = workload.kind === 'refused' ? requests : 0;
  if (requests === 0 || failed > 0 || refused !== expected) {
    throw new Error(
      `${peer.name} in ${workload.name}: ${requests} responses, ${refused} of them refusals, ${failed} failed`,
    );
  }
}

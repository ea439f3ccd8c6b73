import type { AddedLatency } from './added-latency.ts';
import type { CpuCosts } from './cpu-cost.ts';
import type { Curve } from './growth.ts';
import type { Footprint } from './footprint.ts';
import type { Machine } from './machine.ts';
import type { Pace, Result, Sample } from './rounds.ts';
import type { SealCost } from './seals.ts';
import { spreadOf, type Spread } from './statistics.ts';

/** The results of a run, as in the JSON that it writes. */
export interface Report {
  /** The date, in UTC. */
  readonly date: string;
  readonly machine: Machine;
  readonly compare?: {
    readonly pace: Pace;
    readonly titles: Readonly<Record<string, string>>;
    readonly results: readonly Result[];
  };
  readonly growth?: readonly Curve[];
  readonly latency?: {
    readonly rounds: number;
    readonly titles: Readonly<Record<string, string>>;
    readonly added: readonly AddedLatency[];
  };
  readonly options?: CpuCosts;
  readonly cost?: readonly CpuCosts[];
  readonly seals?: SealCost;
  readonly footprint?: { readonly rounds: number; readonly figures: readonly Footprint[] };
}

/** The figures of a peer in a workload, over all rounds. */
export interface Row {
  readonly peer: string;
  readonly requestsPerCpuSecond: Spread;
  /** The ratio of the sidecar's figure to this peer's in the same round; undefined for the sidecar itself. */
  readonly ratio: Spread | undefined;
  readonly requestsPerSecond: Spread;
  readonly busy: Spread;
  /** Latencies in milliseconds, at this rate of requests per second. */
  readonly latency: { readonly rate: Spread; readonly p50: Spread; readonly p99: Spread } | undefined;
  /** The peak memory in bytes. */
  readonly peakMemory: number;
}

/** One row for each peer, in the order of the first round. */
export function rowsOf({ rounds, peakMemory }: Result): Row[] {
  const peers = rounds[0]?.map(({ peer }) => peer) ?? [];
  return peers.map((peer) => {
    const own = rounds.map((samples) => sampleOf(samples, peer));
    const spread = (figure: (sample: Sample) => number): Spread => spreadOf(own.map(figure));
    const compared = peer !== 'sidecar' && peers.includes('sidecar');
    return {
      peer,
      requestsPerCpuSecond: spread((sample) => sample.requestsPerCpuSecond),
      ratio: compared
        ? spreadOf(
            rounds.map(
              (samples) =>
                sampleOf(samples, 'sidecar').requestsPerCpuSecond / sampleOf(samples, peer).requestsPerCpuSecond,
            ),
          )
        : undefined,
      requestsPerSecond: spread((sample) => sample.requestsPerSecond),
      busy: spread((sample) => sample.busy),
      latency: own[0]?.latency && {
        rate: spread(({ latency }) => latency?.rate ?? NaN),
        p50: spread(({ latency }) => latency?.p50 ?? NaN),
        p99: spread(({ latency }) => latency?.p99 ?? NaN),
      },
      peakMemory: peakMemory[peer] ?? NaN,
    };
  });
}

function sampleOf(samples: readonly Sample[], peer: string): Sample {
  const sample = samples.find((each) => each.peer === peer);
  if (sample === undefined) throw new Error(`no figures of ${peer}`);
  return sample;
}

import { join } from 'node:path';
import type { Peer } from './peers.ts';
import { measure, type Pace, type Result } from './rounds.ts';
import type { Stage } from './stage.ts';
import { parts, variant } from './variants.ts';
import type { Workload } from './workloads.ts';

/** The whole sidecar, one without each of its parts, and the floor, in the same rounds. */
export interface Attribution {
  readonly result: Result;
  /** By peer. */
  readonly titles: Readonly<Record<string, string>>;
}

/** Measures what the parts of the sidecar cost that the floor does without. */
export async function attribution(
  stage: Stage,
  workload: Workload,
  { sidecar, floor }: { readonly sidecar: Peer; readonly floor: Peer },
  pace: Pace,
): Promise<Attribution> {
  const peers = [sidecar];
  for (const part of parts) peers.push(await variant(sidecar, part.name, [part], join(stage.directory, 'variants')));
  peers.push(floor);
  const result = await measure(stage, workload, peers, { ...pace, latency: false });
  return { result, titles: Object.fromEntries(peers.map(({ name, title }) => [name, title])) };
}

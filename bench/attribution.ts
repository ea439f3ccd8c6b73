import { join } from 'node:path';
import { cpuCosts, type CpuCosts, type CostPace } from './cpu-cost.ts';
import type { Peer } from './peers.ts';
import type { Stage } from './stage.ts';
import { parts, variant } from './variants.ts';
import type { Workload } from './workloads.ts';

/** Measures the floor, the sidecar, and the sidecar without each of the parts that the floor lacks. */
export async function attribution(
  stage: Stage,
  workload: Workload,
  { sidecar, floor }: { readonly sidecar: Peer; readonly floor: Peer },
  pace: CostPace,
): Promise<CpuCosts> {
  const peers = [sidecar];
  for (const part of parts) peers.push(await variant(sidecar, part.name, [part], join(stage.directory, 'variants')));
  return cpuCosts(stage, workload, [...peers, floor], pace);
}

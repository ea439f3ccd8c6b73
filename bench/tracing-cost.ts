import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { knownMerchants } from './exchanges.ts';
import { cpuCosts, type CostPace, type CpuCosts } from './cpu-cost.ts';
import type { Peer } from './peers.ts';
import { project, sidecarCommand } from './sidecar.ts';
import type { Stage } from './stage.ts';
import type { Workload } from './workloads.ts';

/** Shares of the requests that are traced. */
const samples = [0.01, 1];

/** Compares the sidecar without traces and with them. The collector is a server that accepts everything. */
export async function tracingCost(stage: Stage, workload: Workload, sidecar: Peer, pace: CostPace): Promise<CpuCosts> {
  const collector = createServer((req, res) => req.resume().on('end', () => res.end()));
  collector.listen(0, '127.0.0.1');
  await once(collector, 'listening');
  const otlp = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
  const peers: Peer[] = [{ ...sidecar, title: 'without `tracing`' }];
  for (const sample of samples) {
    peers.push({
      ...sidecar,
      name: `sample-${sample}`,
      title: `\`tracing\` with \`sample: ${sample}\``,
      prepare: (place) => sidecarCommand(project, { ...place, merchants: knownMerchants, tracing: { otlp, sample } }),
    });
  }
  try {
    return await cpuCosts(stage, workload, peers, pace);
  } finally {
    collector.closeAllConnections();
    collector.close();
  }
}

import { generateKeySync } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { kmsKeyring } from '../src/kms/kms-keyring.ts';
import { TestKms } from '../test/support/kms.ts';
import { knownMerchants } from './exchanges.ts';
import { cpuCosts, type CostPace, type CpuCosts } from './cpu-cost.ts';
import type { Peer } from './peers.ts';
import { project, sidecarCommand, type SidecarSetup } from './sidecar.ts';
import type { Stage } from './stage.ts';
import type { Workload } from './workloads.ts';

/**
 * Compares a sidecar without these options to one with a KMS, one with traces of some requests, and one with traces of all requests. The
 * collector is a server that accepts everything.
 */
export async function optionCosts(stage: Stage, workload: Workload, sidecar: Peer, pace: CostPace): Promise<CpuCosts> {
  const collector = createServer((req, res) => req.resume().on('end', () => res.end()));
  collector.listen(0, '127.0.0.1');
  await once(collector, 'listening');
  const otlp = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
  const socket = join(stage.directory, 'kms.sock');
  const kms = new TestKms(socket);
  await kms.start();
  const masterKey = await kmsKeyring({ socket, timeout: 3_000 }, Date.now).wrap(
    generateKeySync('aes', { length: 256 }),
  );
  const withSettings = (title: string, settings: NonNullable<SidecarSetup['settings']>): Peer => ({
    ...sidecar,
    name: title,
    title,
    prepare: (place) => sidecarCommand(project, { ...place, merchants: knownMerchants, settings }),
  });
  const peers = [
    { ...sidecar, title: 'without options' },
    withSettings('`kms`', { kms: { socket }, accounts: { file: 'accounts.yaml', masterKey } }),
    withSettings('`tracing` with `sample: 0.01`', { tracing: { otlp, sample: 0.01 } }),
    withSettings('`tracing` with `sample: 1`', { tracing: { otlp, sample: 1 } }),
  ];
  try {
    return await cpuCosts(stage, workload, peers, pace);
  } finally {
    kms.stop();
    collector.closeAllConnections();
    collector.close();
  }
}

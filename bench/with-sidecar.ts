import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { knownMerchants } from './exchanges.ts';
import { freePort } from '../test/support/free-port.ts';
import type { Running } from './processes.ts';
import { project, sidecarCommand, type SidecarSetup } from './sidecar.ts';
import type { Stage } from './stage.ts';

/**
 * Calls `run` with a fresh sidecar, which is stopped afterwards.
 *
 * @param run receives the milliseconds from the start of the process until it accepts connections, and the folder of
 * its files
 */
export async function withSidecar<T>(
  stage: Stage,
  setup: Partial<SidecarSetup>,
  run: (sidecar: { port: number; process: Running }, startUp: number, directory: string) => Promise<T>,
  nodeFlags: readonly string[] = [],
): Promise<T> {
  const directory = join(stage.directory, 'sidecar');
  mkdirSync(directory);
  const port = await freePort();
  const whole = { directory, port, upstream: stage.upstream, merchants: knownMerchants, ...setup };
  const command = sidecarCommand(project, whole, nodeFlags);
  const startedAt = performance.now();
  const process = await stage.processes.startServer(command, port, {
    cores: stage.cores.server,
    output: join(directory, 'output.log'),
  });
  try {
    return await run({ port, process }, performance.now() - startedAt, directory);
  } finally {
    await process.stop();
    rmSync(directory, { recursive: true, force: true });
  }
}

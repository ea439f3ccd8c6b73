import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chooseCores, pinItself, type Cores } from './machine.ts';
import { freePort } from '../test/support/free-port.ts';
import { Processes } from './processes.ts';

/** The set-up that all measurements share. */
export interface Stage {
  /** A temporary folder, which is removed at the end. */
  readonly directory: string;
  readonly processes: Processes;
  readonly cores: Cores;
  /** The port of the upstream. */
  readonly upstream: number;
}

/** Sets up the stage, calls `run`, and always cleans up afterwards. */
export async function withStage<T>(run: (stage: Stage) => Promise<T>): Promise<T> {
  const cores = chooseCores();
  pinItself(cores.others);
  const directory = mkdtempSync(join(tmpdir(), 'sidecar-bench-'));
  const processes = new Processes();
  const interrupted = (): void => {
    void processes.stopAll().then(() => {
      rmSync(directory, { recursive: true, force: true });
      process.exit(1);
    });
  };
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted);
  try {
    const upstream = await freePort();
    const program = fileURLToPath(new URL('upstream.ts', import.meta.url));
    await processes.startServer({ command: process.execPath, args: [program, String(upstream)] }, upstream, {
      cores: cores.others,
      output: join(directory, 'upstream.log'),
    });
    return await run({ directory, processes, cores, upstream });
  } finally {
    process.off('SIGINT', interrupted).off('SIGTERM', interrupted);
    await processes.stopAll();
    rmSync(directory, { recursive: true, force: true });
  }
}

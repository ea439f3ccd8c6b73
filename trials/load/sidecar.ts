import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Ending, LogEntry } from '../../test/support/command.ts';
import type { Defer } from './stage.ts';

/** The path of the project's program. */
export const program = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** A sidecar in a separate process. Its access log lines are discarded. */
export interface LoadedSidecar {
  readonly pid: number;
  /** The port of the merchants' listener. */
  readonly port: number;
  readonly adminUrl: string;
  /** Undefined if the configuration does not enable the operators' API. */
  readonly operatorsUrl: string | undefined;
  /** The log without access log lines. */
  readonly log: readonly LogEntry[];
  /** What the process has written to stderr. */
  errors(): string;
  /** Stops reading the log, so that it remains in the pipe. */
  stopReading(): void;
  isRunning(): boolean;
  signal(name: NodeJS.Signals): void;
  /** Resolves when the process has ended and the log is complete. */
  readonly ended: Promise<Ending>;
  /**
   * Waits until there are `count` entries with this message.
   *
   * @throws if the process ends before that
   */
  untilEntries(msg: string, count: number): Promise<void>;
}

interface StartOptions {
  readonly nodeOptions?: readonly string[];
  /** The number of configured listeners. */
  readonly listeners?: number;
  /** The program to run; by default, the project's. */
  readonly program?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts `serve` and waits until all listeners are open. */
export async function startLoadedSidecar(
  config: string,
  defer: Defer,
  { nodeOptions = [], listeners = 2, program: run = program, env = {} }: StartOptions = {},
): Promise<LoadedSidecar> {
  const child = spawn(process.execPath, [...nodeOptions, run, 'serve', '--config', config], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  const log: LogEntry[] = [];
  let stderr = '';
  let over = false;
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const lines = createInterface({ input: child.stdout }).on('line', (line) => {
    if (!line.endsWith('"msg":"request"}')) log.push(JSON.parse(line) as LogEntry);
  });
  // The pipes would otherwise stay open, because nothing reads them after `stopReading`.
  child.once('exit', () => {
    over = true;
    child.stdout.resume();
  });
  const ended = new Promise<Ending>((resolve) => {
    child.once('close', (code, signal) => {
      over = true;
      resolve({ code, signal });
    });
  });
  defer(async () => {
    child.kill('SIGKILL');
    await ended;
  });

  const untilEntries = async (msg: string, count: number): Promise<void> => {
    while (log.filter((entry) => entry['msg'] === msg).length < count) {
      if (over) throw new Error(`ended before it logged "${msg}": ${stderr}`);
      await setTimeout(5);
    }
  };
  await untilEntries('listening', listeners);
  const portOf = (listener: string): unknown => log.find((entry) => entry['listener'] === listener)?.['port'];
  const operatorsPort = portOf('operators');
  return {
    pid: child.pid ?? 0,
    port: Number(portOf('merchants')),
    adminUrl: `http://127.0.0.1:${Number(portOf('admin'))}`,
    operatorsUrl: operatorsPort === undefined ? undefined : `http://127.0.0.1:${Number(operatorsPort)}`,
    log,
    errors: () => stderr,
    stopReading: () => {
      lines.close();
      child.stdout.pause();
    },
    isRunning: () => !over,
    signal: (name) => void child.kill(name),
    ended,
    untilEntries,
  };
}

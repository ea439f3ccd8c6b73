import { spawn, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { Defer } from './file-wide.ts';

/**
 * The command line, built as for the image, which starts in less than half the time that the sources take. The build has its own folder,
 * because `npm run build` may replace the other files in dist/ while tests run.
 */
export const builtProgram = fileURLToPath(new URL('../../dist/tests/main.js', import.meta.url));

/** The command line as `npm start` and `bin/sidecar` run it. */
export const sourceProgram = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** One line of the log. */
export type LogEntry = Readonly<Record<string, unknown>>;

/** How a process has ended. */
export interface Ending {
  /** Null if the process was killed by a signal that it did not handle. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** The command line in a process of its own. */
export class Command {
  readonly process: ChildProcess;
  stdout = '';
  stderr = '';
  readonly #ended: Promise<Ending>;
  #over = false;
  #changed: () => void = () => {};

  constructor(child: ChildProcess) {
    this.process = child;
    for (const stream of ['stdout', 'stderr'] as const) {
      child[stream]?.setEncoding('utf8').on('data', (text: string) => {
        this[stream] += text;
        this.#changed();
      });
    }
    this.#ended = new Promise((resolve) => {
      child.once('close', (code, signal) => {
        this.#over = true;
        this.#changed();
        resolve({ code, signal });
      });
    });
  }

  /** The lines on stdout so far that are JSON. */
  get log(): readonly LogEntry[] {
    return this.stdout
      .split('\n')
      .slice(0, -1)
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as LogEntry);
  }

  /** The entries so far with this message. */
  entries(msg: string): readonly LogEntry[] {
    return this.log.filter((entry) => entry['msg'] === msg);
  }

  /** Resolves as soon as `test` returns true after some output. Rejects if the process ends first. */
  until(test: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#changed = () => {
        if (test()) {
          this.#changed = () => {};
          resolve();
        } else if (this.#over) reject(new Error(`ended before it came to that: ${this.stderr}${this.stdout}`));
      };
      this.#changed();
    });
  }

  /** Resolves with the entries with this message as soon as there are `count` of them. */
  async untilEntries(msg: string, count = 1): Promise<readonly LogEntry[]> {
    await this.until(() => this.entries(msg).length >= count);
    return this.entries(msg);
  }

  signal(name: NodeJS.Signals): this {
    this.process.kill(name);
    return this;
  }

  /** Resolves when the process has ended and all its output has arrived. */
  ended(): Promise<Ending> {
    return this.#ended;
  }
}

/** Options for starting a process. */
export interface ProcessSetup {
  /** The program to run; by default, the one that is built for the image. */
  readonly program?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Options for Node itself, which precede the program. */
  readonly nodeOptions?: readonly string[];
  readonly cwd?: string;
  /** How many files and sockets the process may open; needs `prlimit`. */
  readonly openFiles?: number;
  /** Registers the cleanup that ends the process; by default, it runs after the test. */
  readonly defer?: Defer;
}

/** Starts the command line with these arguments. */
export function startCommand(
  args: readonly string[],
  { program = builtProgram, env, nodeOptions = [], cwd, openFiles, defer = onTestFinished }: ProcessSetup = {},
): Command {
  const own = [process.execPath, ...nodeOptions, program, ...args];
  const [file = '', ...rest] =
    openFiles === undefined ? own : ['prlimit', `--nofile=${openFiles}:${openFiles}`, ...own];
  const child = spawn(file, rest, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const command = new Command(child);
  defer(async () => {
    child.kill('SIGKILL');
    await command.ended();
  });
  return command;
}

/** A running `serve` whose listeners are open. */
export interface Serving extends Command {
  readonly port: number;
  readonly adminUrl: string;
}

/** Starts `serve` on a configuration, and waits until the listeners for merchants and for administration are open. */
export async function startServe(config: string, setup?: ProcessSetup): Promise<Serving> {
  const command = startCommand(['serve', '--config', config], setup);
  const portOf = (listener: string): unknown =>
    command.entries('listening').find((entry) => entry['listener'] === listener)?.['port'];
  await command.until(() => portOf('merchants') !== undefined && portOf('admin') !== undefined);
  return Object.assign(command, {
    port: Number(portOf('merchants')),
    adminUrl: `http://127.0.0.1:${Number(portOf('admin'))}`,
  });
}

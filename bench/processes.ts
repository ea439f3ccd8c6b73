import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';

/** A program to run. */
export interface Command {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** How to run a program. */
interface Settings {
  /** The cores that the program may use, in the notation of taskset. */
  readonly cores: string;
  /** The file for standard output, and for standard error unless `errors` is set. */
  readonly output: string;
  readonly errors?: string;
}

/** A running program. */
export interface Running {
  readonly pid: number;
  /** The exit code; null if a signal ended it. */
  readonly ended: Promise<number | null>;
  /** Stops the program, by force after five seconds. */
  stop(): Promise<void>;
}

/** All programs that the benchmark has started. They are tracked so that none outlives it. */
export class Processes {
  readonly #running = new Set<Running>();

  /** Starts a program pinned to its cores. taskset replaces itself with the program, so the pid is the program's. */
  start({ command, args, env }: Command, { cores, output, errors }: Settings): Running {
    const out = openSync(output, 'a');
    const err = errors === undefined ? out : openSync(errors, 'a');
    const child = spawn('taskset', ['--cpu-list', cores, command, ...args], {
      stdio: ['ignore', out, err],
      env: { ...process.env, NODE_ENV: 'production', ...env },
    });
    for (const file of new Set([out, err])) closeSync(file);
    if (child.pid === undefined) throw new Error('taskset cannot be started');
    const ended = new Promise<number | null>((resolve) => void child.once('exit', resolve));
    const running: Running = {
      pid: child.pid,
      ended,
      stop: async () => {
        child.kill('SIGTERM');
        const force = setTimeout(() => child.kill('SIGKILL'), 5_000);
        await ended;
        clearTimeout(force);
      },
    };
    this.#running.add(running);
    void ended.then(() => this.#running.delete(running));
    return running;
  }

  /** Starts a server and waits until it accepts connections on its port. */
  async startServer(command: Command, port: number, settings: Settings): Promise<Running> {
    const server = this.start(command, settings);
    let over = false;
    void server.ended.then(() => (over = true));
    while (!(await accepts(port))) {
      if (over) {
        const said = readFileSync(settings.errors ?? settings.output, 'utf8').slice(-2_000);
        throw new Error(`${command.command} ended before it listened:\n${said}`);
      }
      await new Promise((resolve) => void setTimeout(resolve, 5));
    }
    return server;
  }

  async stopAll(): Promise<void> {
    await Promise.all([...this.#running].map((running) => running.stop()));
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

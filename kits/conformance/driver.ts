import { spawn, type ChildProcessByStdio } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';

/** The outcome of an operation, as a driver prints it on a line. */
export type Outcome = Readonly<Record<string, unknown>> & { readonly error?: Readonly<Record<string, unknown>> };

/** Milliseconds within which a driver must respond. For the first operation, they include the driver's start, and perhaps a compiler's. */
const patience = 120_000;

/** A program that reads one operation per line, and writes one outcome per line in the same order. */
export class Driver {
  readonly #process: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncGenerator<string, void>;

  /** @param command a shell command, which starts in the folder `cwd` */
  constructor(command: string, cwd: string) {
    this.#process = spawn('sh', ['-c', `exec ${command}`], { cwd, stdio: ['pipe', 'pipe', 'inherit'] });
    // If a driver has ended, the missing line shows it.
    this.#process.stdin.on('error', () => undefined);
    this.#lines = linesOf(this.#process.stdout);
  }

  /** Runs one operation. Only one may run at a time. */
  async ask(operation: Readonly<Record<string, unknown>>): Promise<Outcome> {
    this.#process.stdin.write(`${ascii(JSON.stringify(operation))}\n`);
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error(`no line from the driver for ${patience} ms`)), patience);
    try {
      const line = await Promise.race([this.#lines.next(), late.promise]);
      if (line.done === true) throw new Error('the driver ended');
      return JSON.parse(line.value) as Outcome;
    } finally {
      clearTimeout(timer);
    }
  }

  async close(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const ended = new Promise((resolve) => void this.#process.once('close', resolve));
    this.#process.stdin.end();
    const timer = setTimeout(() => this.#process.kill('SIGKILL'), 10_000);
    await ended;
    clearTimeout(timer);
  }
}

/** Escapes characters that are not ASCII, so that drivers depend neither on their locale nor on what they take for the end of a line. */
function ascii(json: string): string {
  return json.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Only a line feed ends a line. node:readline would also treat U+2028 as the end of a line. */
async function* linesOf(stream: Readable): AsyncGenerator<string, void> {
  let rest = '';
  stream.setEncoding('utf8');
  for await (const chunk of stream as AsyncIterable<string>) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}

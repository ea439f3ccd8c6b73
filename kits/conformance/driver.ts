import { spawn, type ChildProcessByStdio } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';

/** A line of a driver: the result of an operation. */
export type Outcome = Readonly<Record<string, unknown>> & { readonly error?: Readonly<Record<string, unknown>> };

/** Milliseconds in which a driver answers. The first operation includes its start, and a compiler perhaps. */
const patience = 120_000;

/** A program that reads an operation a line and writes its outcome a line, in the same order. */
export class Driver {
  readonly #process: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncGenerator<string, void>;

  /** @param command for a shell, which starts in the folder `cwd` */
  constructor(command: string, cwd: string) {
    this.#process = spawn('sh', ['-c', `exec ${command}`], { cwd, stdio: ['pipe', 'pipe', 'inherit'] });
    // A driver that ended is noticed by the missing line.
    this.#process.stdin.on('error', () => undefined);
    this.#lines = linesOf(this.#process.stdout);
  }

  /** Only one operation at a time. */
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

/** Escapes what is not ASCII, so that no driver depends on its locale, nor on what counts as the end of a line. */
function ascii(json: string): string {
  return json.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Only `\n` ends a line. node:readline would take U+2028 for an end too. */
async function* linesOf(stream: Readable): AsyncGenerator<string, void> {
  let rest = '';
  stream.setEncoding('utf8');
  for await (const chunk of stream as AsyncIterable<string>) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}

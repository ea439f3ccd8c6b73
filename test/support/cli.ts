import { PassThrough, Readable, Writable } from 'node:stream';
import { run } from '../../src/cli/run.ts';
import type { CliIo } from '../../src/cli/io.ts';

/** What a command left behind. */
export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandSurroundings {
  readonly env?: Readonly<Record<string, string>>;
  /** Epoch milliseconds. */
  readonly clock?: () => number;
  /** Whether people look at stderr. */
  readonly isTerminal?: boolean;
}

/** Runs a command in this process. */
export async function runCommand(
  args: readonly string[],
  { env = {}, clock = Date.now, isTerminal = false }: CommandSurroundings = {},
): Promise<Ended> {
  const written = { stdout: '', stderr: '' };
  const sink = (name: keyof typeof written): Writable =>
    new Writable({
      decodeStrings: false,
      write(text: string | Buffer, _encoding, done) {
        written[name] += text.toString();
        done();
      },
    });
  const io: CliIo = {
    stdin: Readable.from([]),
    stdout: sink('stdout'),
    stderr: Object.assign(sink('stderr'), { isTTY: isTerminal }),
    env,
    log: new PassThrough(),
    version: '0.0.0',
    clock,
    onSignal: () => {},
  };
  const code = await run(args, io);
  return { code, ...written };
}

import { PassThrough, Readable, Writable } from 'node:stream';
import { localKeyring } from '../../src/accounts/keyring.ts';
import { Output } from '../../src/cli/output.ts';
import { run } from '../../src/cli/run.ts';
import type { CliIo } from '../../src/cli/io.ts';
import { kmsKeyring } from '../../src/kms/kms-keyring.ts';

/** The outcome of a command. */
export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandSetup {
  readonly env?: Readonly<Record<string, string>>;
  /** Returns epoch milliseconds. */
  readonly clock?: () => number;
  readonly stdin?: string | Buffer;
  /** The output to use instead of one that is collected. */
  readonly stdout?: Output;
  /** Whether stderr is a terminal. */
  readonly isTerminal?: true;
  readonly keyring?: CliIo['keyring'];
}

/** Selects the keyring as the program itself does. */
export const keyringOf: CliIo['keyring'] = (kms) => (kms === undefined ? localKeyring : kmsKeyring(kms, Date.now));

/** Runs a command in this process. */
export async function runCommand(
  args: readonly string[],
  { env = {}, clock = Date.now, stdin = '', stdout: given, isTerminal, keyring = keyringOf }: CommandSetup = {},
): Promise<Ended> {
  const [stdout, stderr] = [collect(), collect(isTerminal)];
  const io: CliIo = {
    stdin: Readable.from(stdin.length === 0 ? [] : [stdin]),
    stdout: given ?? stdout.output,
    stderr: stderr.output,
    env,
    log: new PassThrough(),
    version: '0.0.0',
    clock,
    keyring,
    onSignal: () => {},
  };
  const code = await run(args, io);
  return { code, stdout: stdout.bytes().toString(), stderr: stderr.bytes().toString() };
}

/** An output that collects what is written to it. */
export function collect(isTTY = false): { readonly output: Output; readonly bytes: () => Buffer } {
  const chunks: Buffer[] = [];
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      chunks.push(chunk);
      done();
    },
  });
  return {
    output: new Output(Object.assign(stream, { isTTY })),
    bytes: () => Buffer.concat(chunks),
  };
}

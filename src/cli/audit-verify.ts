import { createPublicKey, type KeyObject } from 'node:crypto';
import { createReadStream, readFileSync } from 'node:fs';
import { InvalidArgumentError } from 'commander';
import { publicHalf, tiesOf } from '../audit/chain.ts';
import { linesOf } from '../audit/lines.ts';
import type { Store } from '../accounts/store.ts';
import { verifyTrail, type Problem } from '../audit/verify.ts';
import { cryptography } from '../cryptography.ts';
import { CommandFailed, printError } from './failures.ts';
import type { CliIo } from './io.ts';
import type { AddStoreCommand, StoreSession } from './store-command.ts';

/** Adds `audit verify|export`. */
export function addTrailCommands(add: AddStoreCommand): void {
  add('verify', 'verify that the trail has not been changed', 'reads')
    .option('--trail <file>', 'an exported trail; needs no store and no configuration')
    .option('--key <file>', 'public key (PEM) that may have signed the last event; can be repeated', addKey)
    .option('--anchor <position:hash>', 'hash of an event, kept elsewhere; can be repeated', addAnchor)
    .run(verifyStore, (io, options: VerifyOptions) =>
      options.trail === undefined ? undefined : verifyFile(io, options.trail, options),
    );
  add('export', 'write the lines of the trail to stdout, byte for byte', 'reads')
    .option('--after <position>', 'only lines after this position', positionOf, 0)
    .run(exportTrail);
}

interface VerifyOptions {
  readonly trail?: string;
  readonly key?: readonly KeyObject[];
  readonly anchor?: ReadonlyMap<number, string>;
  readonly json?: true;
}

async function verifyStore({ store, settings, io }: StoreSession, options: VerifyOptions): Promise<void> {
  const key = options.key ?? settings.auditKeys.slice(0, 1).map(publicHalf);
  await verify(io, (torn, stray) => store.trail(torn, stray), { ...options, key });
}

async function verifyFile(io: CliIo, file: string, options: VerifyOptions): Promise<void> {
  try {
    await verify(io, (torn) => linesOf(createReadStream(file), torn), options);
  } catch (error) {
    const { syscall, code } = error as NodeJS.ErrnoException;
    throw syscall === undefined ? error : new CommandFailed(`cannot read ${file}: ${code}`);
  }
}

async function verify(
  io: CliIo,
  read: (...faults: Parameters<Store['trail']>) => AsyncIterable<Buffer>,
  { key: keys = [], anchor: anchors = new Map(), json }: VerifyOptions,
): Promise<void> {
  const warnings: string[] = [];
  let stray: Problem | undefined;
  const lines = read(
    () => warnings.push('the last line is incomplete, as a crash leaves it, and was not verified'),
    (line, position) => void (stray ??= { position: line, fault: 'moved', message: `stands at position ${position}` }),
  );
  const report = await verifyTrail(lines, { keys, anchors });
  const { events, signed, signedByOthers, takenOverLater } = report;
  // What is missing moves all lines behind it.
  const problems = report.problems.length > 0 || stray === undefined ? report.problems : [stray];
  const unsigned = events - signed;
  // Whoever writes such events anew, without the key, is found only by an anchor: the next change signs on.
  if (problems.length === 0 && signed > 0 && unsigned > 0)
    warnings.push(`events 1 to ${unsigned} are not signed: compare event ${unsigned} with an anchor`);
  if (problems.length === 0 && keys.length > 0 && signedByOthers > 0)
    warnings.push(
      `events up to ${signedByOthers} are signed by a key that was not given: give it too, or compare event ${signedByOthers} with an anchor`,
    );
  // `accounts migrate` cannot tell who wrote a row of the old table.
  if (problems.length === 0 && takenOverLater > 0)
    warnings.push(
      `events up to ${takenOverLater} were taken over from the table "audit" after this trail had begun: only a rollback writes there`,
    );
  for (const warning of warnings) await printError(io, `warning: ${warning}\n`);
  if (json) await io.stdout.write(`${JSON.stringify({ events, signed, problems, warnings })}\n`);
  if (problems.length > 0)
    throw new CommandFailed(
      problems.map(({ position, fault, message }) => `event ${position} is ${fault}: it ${message}`),
    );
  if (!json) await io.stdout.write(`OK: ${events} events, ${signed} signed\n`);
}

async function exportTrail({ store, io }: StoreSession, { after }: { readonly after: number }): Promise<void> {
  let line = 0;
  for await (const bytes of store.trail(() => {})) {
    line += 1;
    if ((tiesOf(bytes)?.position ?? line) > after) await io.stdout.write(Buffer.concat([bytes, Buffer.from('\n')]));
  }
}

function addKey(file: string, keys: readonly KeyObject[] = []): readonly KeyObject[] {
  try {
    const key = createPublicKey(readFileSync(file));
    if (key.asymmetricKeyType === cryptography.signature.algorithm) return [...keys, key];
  } catch {
    // Refused below.
  }
  throw new InvalidArgumentError('Expected the path of an Ed25519 public key in PEM.');
}

function addAnchor(text: string, anchors: ReadonlyMap<number, string> = new Map()): ReadonlyMap<number, string> {
  const [, position, hash] = /^([1-9][0-9]{0,14}):([0-9a-f]{64})$/.exec(text) ?? [];
  if (position !== undefined && hash !== undefined) return new Map([...anchors, [Number(position), hash]]);
  throw new InvalidArgumentError('Expected POSITION:HASH, the hash in lower-case hex.');
}

export function positionOf(text: string): number {
  if (/^[0-9]{1,15}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Expected a position.');
}

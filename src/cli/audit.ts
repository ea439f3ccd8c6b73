import { createPublicKey, type KeyObject } from 'node:crypto';
import { createReadStream, readFileSync } from 'node:fs';
import { InvalidArgumentError, Option } from 'commander';
import { environmentNames } from '../accounts/api-key.ts';
import { auditActions, type EventFilter } from '../accounts/store.ts';
import { identifier, position } from '../accounts/value-types.ts';
import type { Link } from '../audit/chain.ts';
import { readLines, type Line } from '../audit/lines.ts';
import { verifyTrail } from '../audit/verify.ts';
import { cryptography } from '../cryptography.ts';
import { instant } from '../input/value-types.ts';
import { CommandFailed, printError, readable } from './failures.ts';
import type { CliIo } from './io.ts';
import { readAs } from './options.ts';
import type { AddStoreCommand, StoreSession } from './store-command.ts';

/** Adds `audit list|verify|export`. */
export function addAuditCommands(add: AddStoreCommand): void {
  add('list', 'list changes to accounts, newest first', 'reads')
    .option('--account <id>', 'only changes to this account', readAs(identifier))
    .option(
      '--since <time>',
      'only changes since this time, such as 2026-11-01 or 2026-11-01T09:30:00Z',
      readAs(instant),
    )
    .option('--until <time>', 'only changes before this time', readAs(instant))
    .option('--actor <name>', 'only changes by this actor: token:otto, user:otto, or otto for either')
    .addOption(new Option('--action <action>', 'only changes of this kind').choices(auditActions))
    .addOption(new Option('--environment <environment>', 'only changes in this environment').choices(environmentNames))
    .option('--before <position>', 'only changes before this position', readAs(position))
    .option('--after <position>', 'only changes after this position, oldest first', readAs(position))
    .run(list);
  add('verify', 'verify that the trail has not been changed', 'reads')
    .option('--trail <file>', 'an exported trail; needs no store and no configuration')
    .option('--key <file>', 'public key (PEM) that may have signed the last event; can be repeated', addKey)
    .option(
      '--anchor <position:hash>',
      'position and hash of an event, kept elsewhere, for example in a log; can be repeated',
      addAnchor,
    )
    .run(verifyStore, verifyFile);
  add('export', 'write the lines of the trail to stdout, byte for byte', 'reads')
    .option('--after <position>', 'only lines after this position', readAs(position), 0)
    .run(exportTrail);
}

function list({ operations, unreadable, showList }: StoreSession, filter: EventFilter): Promise<void> {
  return showList(operations.events(filter, unreadable), {
    head: ['POSITION', 'TIME', 'ACTOR', 'ACTION', 'ACCOUNT', 'DETAILS'],
    row: ({ position, at, actor, action, account, details }) => {
      const pairs = Object.entries(details).map(([name, value]) => `${name}=${value}`);
      return [String(position), at, actor, action, account ?? '-', pairs.join(' ')];
    },
    empty: 'No changes.',
  });
}

interface Options {
  readonly trail?: string;
  readonly key?: readonly KeyObject[];
  readonly anchor?: readonly Link[];
  readonly json?: true;
}

function verifyStore({ store, settings, io }: StoreSession, options: Options): Promise<void> {
  const key = settings.auditKeys.slice(0, 1).map((each) => createPublicKey(each));
  return verify(io, store.trail(), { key, ...options });
}

function verifyFile(io: CliIo, options: Options): Promise<void> | undefined {
  const { trail } = options;
  if (trail === undefined) return undefined;
  return readable(trail, () => verify(io, readLines(createReadStream(trail)), options));
}

async function verify(io: CliIo, lines: AsyncIterable<Line>, { key = [], anchor = [], json }: Options): Promise<void> {
  const report = await verifyTrail(lines, { keys: key, anchors: anchor });
  const { events, signed, problems, warnings } = report;
  for (const warning of warnings) await printError(io, `warning: ${warning}\n`);
  if (json) await io.stdout.write(`${JSON.stringify(report)}\n`);
  else if (problems.length === 0) await io.stdout.write(`OK: ${events} events, ${signed} signed\n`);
  if (problems.length > 0)
    throw new CommandFailed(problems.map((each) => `event ${each.position} is ${each.fault}: it ${each.message}`));
}

async function exportTrail({ store, io }: StoreSession, { after }: { readonly after: number }): Promise<void> {
  for await (const { bytes, isTorn } of store.trail(after)) {
    if (!isTorn) await io.stdout.write(Buffer.concat([bytes, Buffer.from('\n')]));
  }
}

function addKey(file: string, keys: readonly KeyObject[] = []): readonly KeyObject[] {
  try {
    const key = createPublicKey(readFileSync(file));
    if (key.asymmetricKeyType === cryptography.signature.algorithm) return [...keys, key];
  } catch {
    // The file is refused below.
  }
  throw new InvalidArgumentError('Expected the path of an Ed25519 public key in PEM.');
}

function addAnchor(text: string, anchors: readonly Link[] = []): readonly Link[] {
  const [, position, hash] = /^([1-9][0-9]{0,14}):([0-9a-f]{64})$/.exec(text) ?? [];
  if (position !== undefined && hash !== undefined) return [...anchors, { position: Number(position), hash }];
  throw new InvalidArgumentError('Expected POSITION:HASH, the hash in lower-case hex.');
}

import { text } from 'node:stream/consumers';
import { Option } from 'commander';
import { AccountsError } from '../accounts/accounts-error.ts';
import { lifetime, newName, overlap, sha256, usualOverlap } from '../accounts/value-types.ts';
import { environmentNames, isWellFormed, keyKinds, type EnvironmentName, type KeyKind } from '../accounts/api-key.ts';
import { dueKinds, type DueFilter, type DueView } from '../accounts/due.ts';
import { hasChecksum } from '../accounts/key-maker.ts';
import type { IssuedKeyView, KeyView } from '../accounts/views.ts';
import { CommandFailed } from './failures.ts';
import { exitCodes, type CliIo } from './io.ts';
import { accountArgument, environmentOption, readAs } from './options.ts';
import type { AddStoreCommand, StoreSession } from './store-command.ts';
import { day, members, minute, table, type Layout } from './table.ts';
import { sha256Hex } from '../cryptography.ts';

/** Adds `keys issue|list|find|due|rotate|revoke`. */
export function addKeyCommands(add: AddStoreCommand): void {
  const onAccount: AddStoreCommand = (name, description, access) =>
    add(name, description, access).addArgument(accountArgument('<account>'));
  const onKey: AddStoreCommand = (name, description) =>
    onAccount(name, description).argument('<key>', 'the id of the key, or the key itself');

  onAccount('issue', 'create a key and show it once')
    .addOption(environmentOption())
    .addOption(
      new Option('--kind <kind>', 'public for browsers, secret for servers').choices(keyKinds).makeOptionMandatory(),
    )
    .option(
      '--expires <duration>',
      'how long the key is valid, such as 180d (default: keys.maxAge, or until it is revoked)',
      readAs(lifetime),
    )
    .option('--name <name>', 'display name, such as Till 3', readAs(newName))
    .run(issue);

  onAccount('list', 'list the keys of an account', 'reads').run(list);

  add('find', 'find the account of a key; the key is read from stdin unless its hash is given', 'reads')
    .option('--sha256 <hash>', 'SHA-256 of the key in hex, instead of the key', readAs(sha256))
    .run(find);

  add('due', 'list keys and credentials that are due for rotation or expire soon, most urgent first', 'reads')
    .addOption(new Option('--environment <environment>', 'only this environment').choices(environmentNames))
    .addOption(new Option('--kind <kind>', 'only this kind').choices(dueKinds))
    .run(({ operations, unreadable, showList }, filter: DueFilter) =>
      showList(operations.due({ ...filter, unreadable }), dueLayout),
    );

  onKey('rotate', 'create the successor of a key; the old key stays valid for a while')
    .addOption(
      new Option('--overlap <duration>', 'how long the old key stays valid')
        .argParser(readAs(overlap))
        .default(readAs(overlap)(usualOverlap), usualOverlap),
    )
    .run(rotate);

  onKey('revoke', 'revoke a key immediately and permanently').run(revoke);
}

interface IssueOptions {
  readonly environment: EnvironmentName;
  readonly kind: KeyKind;
  readonly expires?: number;
  readonly name?: string;
}

async function issue({ operations, actor, show }: StoreSession, id: string, options: IssueOptions): Promise<void> {
  const { environment, kind, expires, name } = options;
  const issued = await operations.issueKey(id, { environment, kind, lifetime: expires, name }, { actor });
  await show(issued, () => issuedText(issued));
}

async function list({ operations, show }: StoreSession, id: string): Promise<void> {
  const keys = await operations.keys(id);
  await show(keys, () => keysTable(keys));
}

async function find({ io, operations, show }: StoreSession, options: { readonly sha256?: string }): Promise<void> {
  const found = await operations.findKey(options.sha256 ?? (await hashFrom(io)));
  const { account, id, environment, kind } = found;
  const [name, key] = [found.name ?? undefined, found.hint ?? undefined];
  await show(found, () => members({ account, id, name, key, environment, kind, state: formatState(found) }));
}

async function rotate(
  session: StoreSession,
  id: string,
  named: string,
  options: { readonly overlap: number },
): Promise<void> {
  const { operations, actor, show } = session;
  const issued = await operations.rotateKey(id, await resolveKeyId(session, id, named), options.overlap, { actor });
  await show(issued, () => issuedText(issued));
}

async function revoke(session: StoreSession, id: string, named: string): Promise<void> {
  const { operations, actor, show } = session;
  const revoked = await operations.revokeKey(id, await resolveKeyId(session, id, named), { actor });
  await show(revoked, () => `${revoked.id} is revoked.\n`);
}

const dueLayout: Layout<DueView> = {
  head: ['ACCOUNT', 'ENVIRONMENT', 'KIND', 'ID', 'KEY', 'NAME', 'CREATED', 'EXPIRES', 'LAST USED', 'WHY'],
  row: (due) => [
    due.account,
    due.environment,
    due.kind,
    due.id ?? '-',
    due.kind === 'credentials' ? '-' : maskedKey({ ...due, kind: due.kind }),
    due.name ?? '-',
    day(due.created_at),
    day(due.expires_at),
    day(due.last_used_at),
    due.warnings.join(', '),
  ],
  empty: 'Nothing is due or expiring.',
};

/** Returns the id of a key that is given as its id or as the key itself. An operator who finds a leaked key may not know its id. */
async function resolveKeyId({ operations }: StoreSession, id: string, named: string): Promise<string> {
  if (!isWellFormed(named)) return named;
  try {
    return (await operations.findKey(sha256Hex(named), id)).id;
  } catch (error) {
    if (!(error instanceof AccountsError) || error.code !== 'key_unknown') throw error;
    const hint = hasChecksum(named) ? '' : ': it is mistyped, or was not created by "keys issue"';
    throw new AccountsError('key_unknown', `account ${id} does not have this key${hint}`);
  }
}

function issuedText(issued: IssuedKeyView): string {
  const { key = '', id, account, environment, kind, replaces } = issued;
  const name = issued.name ?? undefined;
  const expires = issued.expires_at === null ? 'never' : minute(issued.expires_at);
  const replaced = replaces && `${replaces.id}, until ${minute(replaces.expires_at)}`;
  return `${members({ key, id, name, account, environment, kind, expires, replaces: replaced })}
The key is not shown again: only its hash is stored.
`;
}

/** The hash of the key on standard input. */
async function hashFrom({ stdin }: CliIo): Promise<string> {
  const key = (await text(stdin)).trim();
  if (!isWellFormed(key)) throw new CommandFailed('stdin is not an API key', exitCodes.usage);
  return sha256Hex(key);
}

/** The state of a key and its warnings, such as `valid, expiring`. */
function formatState({ state, warnings }: KeyView): string {
  return [state, ...warnings].join(', ');
}

/** A key with its middle left out, such as `sk_live_…oiTq`. The last characters are shown only if they are known. */
function maskedKey({ hint, kind, environment }: Pick<KeyView, 'hint' | 'kind' | 'environment'>): string {
  return hint ?? `${kind === 'secret' ? 'sk' : 'pk'}_${environment}_…`;
}

/** The keys of an account, as a table for people. */
export function keysTable(keys: readonly KeyView[]): string {
  if (keys.length === 0) return 'No keys.\n';
  const isRecorded = keys.some((key) => key.last_used_at !== undefined);
  const isNamed = keys.some(({ name }) => name !== null);
  const names = [
    'ID',
    'KEY',
    ...(isNamed ? ['NAME'] : []),
    'STATE',
    'CREATED',
    'EXPIRES',
    ...(isRecorded ? ['LAST USED'] : []),
  ];
  return table([
    names,
    ...keys.map((key) => [
      key.id,
      maskedKey(key),
      ...(isNamed ? [key.name ?? '-'] : []),
      formatState(key),
      day(key.created_at),
      day(key.expires_at),
      ...(isRecorded ? [day(key.last_used_at)] : []),
    ]),
  ]);
}

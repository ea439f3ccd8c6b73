import { readFileSync, statSync } from 'node:fs';
import { extname } from 'node:path';
import { AccountsError } from '../accounts/accounts-error.ts';
import { environmentNames } from '../accounts/api-key.ts';
import { toMembers } from '../accounts/file/members.ts';
import { parseMasterKeys } from '../accounts/master-key.ts';
import type { AuditAction, StoredAccount } from '../accounts/store.ts';
import { csvAccounts, ndjsonAccounts } from '../accounts/transfer/account-lines.ts';
import { Importer } from '../accounts/transfer/importer.ts';
import { maxLineLength, readTextLines, tooLong } from '../accounts/transfer/lines.ts';
import { Vault } from '../accounts/vault.ts';
import { loadCommandStore, openStore } from '../config/command-store.ts';
import { CommandFailed, printError, readable, valid } from './failures.ts';
import { counted } from './table.ts';
import type { AddStoreCommand, StoreSession } from './store-command.ts';

const fileForm = 'CSV if its name ends in .csv, otherwise NDJSON';

/** Adds `accounts import|apply|export|copy|rekey`. */
export function addTransferCommands(add: AddStoreCommand): void {
  add('import', 'add the accounts of a file; existing accounts are skipped')
    .argument('<file>', fileForm)
    .option('--dry-run', 'list what would be added without adding it')
    .option('--partial', 'add the valid accounts even if others are refused')
    .run(importFile);
  add('apply', 'add, rename, activate and deactivate accounts to match a file; keys and encryption are unchanged')
    .argument('<file>', fileForm)
    .option('--dry-run', 'list what would change without changing it')
    .run(applyFile);
  add('export', 'write all accounts to stdout as NDJSON, with credentials as stored').run(exportAll);
  add('copy', 'copy all accounts to the store of another configuration')
    .requiredOption('--to <file>', 'path of the other configuration file')
    .run(copy);
  add('rekey', 'wrap all credentials with a new master key')
    .requiredOption('--new-master-key-file <file>', 'file with 32 bytes in base64 or hex')
    .run(rekey);
}

/** One entry of the input and its position: an account to be added, or the reasons why the entry is refused. */
interface Candidate {
  readonly where: string;
  readonly account: StoredAccount | undefined;
  readonly problems: readonly string[];
}

interface ImportOptions {
  readonly dryRun?: true;
  readonly partial?: true;
}

/** Imports the accounts of a file. Without `--partial`, the whole file is checked before any account is added. */
async function importFile(session: StoreSession, file: string, { dryRun, partial }: ImportOptions): Promise<void> {
  await readable(file, async () => {
    const vault = await session.vault();
    const importer = new Importer({ ...session, vault }, vault, session.actor);
    if (dryRun || !partial) {
      // The file is read twice, but a pipe can be read only once.
      if (!dryRun && statSync(file).isFIFO()) {
        throw new CommandFailed(`${file} is a pipe, which cannot be read twice: use --partial`);
      }
      const { io } = session;
      const list = ({ id, name, keys }: StoredAccount): Promise<void> =>
        io.stdout.write(`+ ${id}  ${name}  ${counted(keys.length, 'key')}\n`);
      const all = candidatesIn(session, file);
      const counts = await inBatches(session, all, importer.batchSize, (accounts) => importer.check(accounts), {
        ...(dryRun && !session.json && { added: list }),
      });
      const isRefused = counts.refused > 0;
      if (dryRun || isRefused) {
        const total = isRefused && !partial ? { ...counts, added: 0 } : counts;
        await session.show(total, () => `${dryRun ? 'Dry run: ' : ''}${countsLine(total)}`);
        if (!isRefused) return;
        const nothing = `nothing ${dryRun ? 'would be' : 'was'} added: correct the file, or use --partial`;
        throw new CommandFailed(partial ? someRefused : nothing);
      }
    }
    await transfer(session, importer, candidatesIn(session, file));
  });
}

async function* candidatesIn({ vault }: StoreSession, file: string): AsyncIterable<Candidate> {
  const lines = (extname(file) === '.csv' ? csvAccounts : ndjsonAccounts)(readTextLines(file), await vault());
  for await (const { line, ...read } of lines) yield { where: `${file}:${line}`, ...read };
}

/** A change that `accounts apply` makes: `account_added`, `account_renamed`, `account_activated` or `account_deactivated`. */
interface Step {
  readonly account: string;
  readonly change: AuditAction;
  readonly name?: string;
}

async function applyFile(session: StoreSession, file: string, { dryRun }: { readonly dryRun?: true }): Promise<void> {
  const { io, operations, actor, show } = session;
  const wanted = new Map<string, Pick<StoredAccount, 'name' | 'active'>>();
  let refused = 0;
  await readable(file, async () => {
    for await (const { where, account, problems } of candidatesIn(session, file)) {
      const isRepeated = account !== undefined && wanted.has(account.id);
      const found = isRepeated ? [`the account ${account.id} is in the file twice`] : problems;
      for (const problem of found) await printError(io, `${where}  ${problem}\n`);
      if (account === undefined || isRepeated) refused += 1;
      else wanted.set(account.id, { name: account.name, active: account.active });
    }
  });
  if (refused > 0) throw new CommandFailed('nothing was changed: correct the file');
  const steps: Step[] = [];
  for (const [id, { name, active }] of wanted) {
    const before = await operations.stored(id);
    if (before === undefined) steps.push({ account: id, change: 'account_added', name });
    else if (before.name !== name) steps.push({ account: id, change: 'account_renamed', name });
    if ((before?.active ?? true) !== active) {
      steps.push({ account: id, change: active ? 'account_activated' : 'account_deactivated' });
    }
  }
  const made: Step[] = [];
  try {
    for (const step of steps) {
      if (!dryRun) await applyStep(operations, step, actor);
      made.push(step);
    }
  } finally {
    // The changes are shown even if a step has failed, because the steps before it remain in effect.
    const lines = made.map(
      ({ account, change, name }) => `${change}  ${account}${name === undefined ? '' : `  ${name}`}\n`,
    );
    const total = `${dryRun ? 'Dry run: ' : ''}${counted(made.length, 'change')}, ${counted(wanted.size, 'account')} in the file.\n`;
    await show({ changes: made, accounts: wanted.size }, () => lines.join('') + total);
  }
}

async function applyStep(
  operations: StoreSession['operations'],
  { account, change, name = '' }: Step,
  actor: string,
): Promise<void> {
  if (change === 'account_added') await operations.add(account, name, { actor });
  else if (change === 'account_renamed') await operations.rename(account, name, { actor });
  else await operations.setActive(account, change === 'account_activated', { actor });
}

async function exportAll({ operations, store, unreadable, io, actor }: StoreSession): Promise<void> {
  await operations.record('accounts_exported', {}, { actor });
  for await (const account of store.list(undefined, unreadable)) {
    const line = JSON.stringify(toMembers(account));
    // A line that an import would refuse is useless as a backup, so the account is reported instead.
    if (line.length <= maxLineLength) await io.stdout.write(`${line}\n`);
    else
      unreadable(new AccountsError('too_many_keys', `account ${account.id} has too many keys: its line is ${tooLong}`));
  }
}

async function copy(session: StoreSession, { to }: { readonly to: string }): Promise<void> {
  const { io, origin } = session;
  const { env } = io;
  const { store, vault } = openStore(valid(loadCommandStore(to, env)).value, env, io.keyring, origin);
  try {
    const importer = new Importer({ ...session, store, vault: await vault() }, await session.vault(), session.actor);
    await transfer(session, importer, storedIn(session));
  } finally {
    await store.close();
  }
}

async function* storedIn({ store, unreadable }: StoreSession): AsyncIterable<Candidate> {
  for await (const account of store.list(undefined, unreadable)) yield { where: account.id, account, problems: [] };
}

interface Counts {
  added: number;
  unchanged: number;
  refused: number;
}

function countsLine({ added, unchanged, refused }: Counts): string {
  return `${added} added, ${unchanged} already present, ${refused} refused.\n`;
}

const someRefused = 'some accounts were refused: correct them, then run the command again';

/**
 * Passes candidates to `add` in batches, and reports why candidates are refused.
 *
 * @param counts the counts to add to. If a batch fails, they cover all batches before that one
 */
async function inBatches(
  { io }: StoreSession,
  all: AsyncIterable<Candidate>,
  size: number,
  add: Importer['add'],
  on: { readonly added?: (account: StoredAccount) => Promise<void> } = {},
  counts: Counts = { added: 0, unchanged: 0, refused: 0 },
): Promise<Counts> {
  let batch: { readonly where: string; readonly account: StoredAccount }[] = [];

  const refuse = async (where: string, messages: readonly string[]): Promise<void> => {
    counts.refused += 1;
    for (const message of messages) await printError(io, `${where}  ${message}\n`);
  };
  const flush = async (): Promise<void> => {
    const outcomes = await add(batch.map(({ account }) => account));
    for (const [i, outcome] of outcomes.entries()) {
      if (outcome instanceof AccountsError) await refuse(batch[i]?.where ?? '', [outcome.message]);
      else counts[outcome] += 1;
      const account = batch[i]?.account;
      if (outcome === 'added' && account !== undefined) await on.added?.(account);
    }
    batch = [];
  };
  for await (const { where, account, problems } of all) {
    if (account === undefined) await refuse(where, problems);
    else batch.push({ where, account });
    if (batch.length === size) await flush();
  }
  if (batch.length > 0) await flush();
  return counts;
}

/** Adds the valid candidates even if others are refused. */
async function transfer(session: StoreSession, importer: Importer, all: AsyncIterable<Candidate>): Promise<void> {
  const { audit, show } = session;
  const counts = { added: 0, unchanged: 0, refused: 0 };
  try {
    await inBatches(session, all, importer.batchSize, (accounts) => importer.add(accounts), {}, counts);
  } finally {
    if (importer.last !== undefined) {
      audit({ ...importer.last, account: undefined, details: { accounts: counts.added } });
    }
  }
  await show(counts, () => countsLine(counts));
  if (counts.refused > 0) throw new CommandFailed(someRefused);
}

async function rekey(session: StoreSession, options: { readonly newMasterKeyFile: string }): Promise<void> {
  const { operations, keyring, actor, show } = session;
  const file = options.newMasterKeyFile;
  await readable(file, async () => {
    const [key, ...more] = parseMasterKeys(readFileSync(file, 'utf8')) ?? [];
    if (key === undefined || more.length > 0) throw new CommandFailed(`${file}: expected 32 bytes in base64 or hex`);
    const vault = await session.vault();
    const to = new Vault([await keyring.unwrap(key)]);
    const accounts = await operations.rekey(to, { actor });
    const isFirst = environmentNames.every((environment) => vault.holds(to, environment) !== 'other');
    const next = isFirst
      ? 'When all sidecars have the new key on the first line, you can remove the old key.\n'
      : 'Put the new key on the first line, wait until all sidecars have loaded it, and run this command again before you remove the old key.\n';
    const done = `${counted(accounts, 'account')} ${accounts === 1 ? 'was' : 'were'} wrapped with the new master key, KCV ${key.kcv}.\n`;
    await show({ accounts, kcv: key.kcv }, () => done + next);
  });
}

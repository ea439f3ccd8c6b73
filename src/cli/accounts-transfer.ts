import { readFileSync, statSync } from 'node:fs';
import { extname } from 'node:path';
import { AccountsError } from '../accounts/accounts-error.ts';
import { membersOf } from '../accounts/file/members.ts';
import type { StoredAccount } from '../accounts/store.ts';
import { csvAccounts, ndjsonAccounts } from '../accounts/transfer/account-lines.ts';
import { Importer } from '../accounts/transfer/importer.ts';
import { linesOf } from '../accounts/transfer/lines.ts';
import { Vault, parseMasterKeys } from '../accounts/vault.ts';
import { loadSettings } from '../config/load.ts';
import { openStore } from '../config/command-store.ts';
import { CommandFailed, printError, valid } from './failures.ts';
import { Progress } from './progress.ts';
import type { AddStoreCommand, StoreSession } from './store-command.ts';

/** Accounts per batch. Each batch rewrites the file once, or is one transaction. */
const batchSize = 5_000;

/** Adds `accounts import|export|copy|rekey`. */
export function addTransferCommands(add: AddStoreCommand): void {
  add('import', 'add the accounts of a file; existing accounts are skipped')
    .argument('<file>', 'CSV if its name ends in .csv, otherwise NDJSON')
    .run(importFile);
  add('export', 'write all accounts to stdout as NDJSON, with credentials as stored').run(exportAll);
  add('copy', 'copy all accounts to the store of another configuration')
    .requiredOption('--to <file>', 'path of the other configuration file')
    .run(copy);
  add('rekey', 'wrap all credentials with a new master key')
    .requiredOption('--new-master-key-file <file>', 'file with 32 bytes in base64 or hex')
    .run(rekey);
}

/** An account to be added, or its problems, and its place in the input. */
interface Candidate {
  readonly where: string;
  readonly account: StoredAccount | undefined;
  readonly problems: readonly string[];
}

async function importFile(session: StoreSession, file: string): Promise<void> {
  await readable(file, async () => {
    const size = statSync(file).size;
    let read = 0;
    const lines = linesOf(file, (bytes) => (read = bytes));
    const accounts = (extname(file) === '.csv' ? csvAccounts : ndjsonAccounts)(lines, session.vault);
    const importer = new Importer(session, session.vault, session.actor);
    await transfer(session, importer, candidates(file, accounts), () => read / size);
  });
}

async function* candidates(file: string, lines: ReturnType<typeof ndjsonAccounts>): AsyncIterable<Candidate> {
  for await (const { line, ...read } of lines) yield { where: `${file}:${line}`, ...read };
}

async function exportAll({ store, unreadable, io }: StoreSession): Promise<void> {
  for await (const account of store.list(undefined, unreadable)) {
    await io.stdout.write(`${JSON.stringify(membersOf(account))}\n`);
  }
}

async function copy(session: StoreSession, { to }: { readonly to: string }): Promise<void> {
  const { env } = session.io;
  const { store, vault } = openStore(valid(loadSettings(to, env)).value.store, env);
  try {
    const importer = new Importer({ ...session, store, vault }, session.vault, session.actor);
    await transfer(session, importer, storedIn(session), () => undefined);
  } finally {
    await store.close();
  }
}

async function* storedIn({ store, unreadable }: StoreSession): AsyncIterable<Candidate> {
  for await (const account of store.list(undefined, unreadable)) yield { where: account.id, account, problems: [] };
}

/** Adds candidates in batches, and reports why a candidate is refused. */
async function transfer(
  { io, actor, audit, clock, show }: StoreSession,
  importer: Importer,
  all: AsyncIterable<Candidate>,
  share: () => number | undefined,
): Promise<void> {
  const progress = new Progress(io.stderr, clock);
  const counts = { added: 0, unchanged: 0, refused: 0 };
  let batch: { readonly where: string; readonly account: StoredAccount }[] = [];

  const refuse = async (where: string, messages: readonly string[]): Promise<void> => {
    progress.end();
    counts.refused += 1;
    for (const message of messages) await printError(io, `${where}  ${message}\n`);
  };
  const flush = async (): Promise<void> => {
    const outcomes = await importer.add(batch.map(({ account }) => account));
    for (const [i, outcome] of outcomes.entries()) {
      if (outcome instanceof AccountsError) await refuse(batch[i]?.where ?? '', [outcome.message]);
      else counts[outcome] += 1;
    }
    batch = [];
    progress.draw(share(), counts.added + counts.unchanged);
  };

  try {
    for await (const { where, account, problems } of all) {
      if (account === undefined) await refuse(where, problems);
      else batch.push({ where, account });
      if (batch.length === batchSize) await flush();
    }
    if (batch.length > 0) await flush();
  } finally {
    progress.end();
    if (counts.added > 0) {
      const details = { accounts: counts.added };
      audit({ at: clock(), actor, action: 'account_imported', account: undefined, details });
    }
  }
  const { added, unchanged, refused } = counts;
  await show(counts, () => `${added} added, ${unchanged} already present, ${refused} refused.\n`);
  if (refused > 0) throw new CommandFailed('some accounts were refused: correct them, then run the command again');
}

async function rekey(session: StoreSession, options: { readonly newMasterKeyFile: string }): Promise<void> {
  const { operations, vault, actor, show } = session;
  const file = options.newMasterKeyFile;
  await readable(file, async () => {
    const keys = parseMasterKeys(readFileSync(file, 'utf8'));
    if (keys === undefined) throw new CommandFailed(`${file}: expected 32 bytes in base64 or hex`);
    const to = new Vault(keys);
    const accounts = await operations.rekey(to, { actor });
    const next =
      vault.holds(to) === 'first'
        ? 'When all sidecars have the new key on the first line, you can remove the old key.\n'
        : 'Put the new key on the first line, let all sidecars load it, and run this command again before you remove the old key.\n';
    await show({ accounts }, () => `${accounts} accounts were wrapped with the new master key.\n${next}`);
  });
}

/** Runs `work`; an error names the file if it cannot be read. */
async function readable(file: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    if (path === file) throw new CommandFailed(`cannot read ${file}: ${code}`);
    if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') throw new CommandFailed(`cannot read ${file}: it is not UTF-8`);
    if (code === 'EISDIR') throw new CommandFailed(`cannot read ${file}: it is a directory`);
    throw error;
  }
}

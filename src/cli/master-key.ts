import { createSecretKey, randomBytes, type KeyObject } from 'node:crypto';
import { text } from 'node:stream/consumers';
import { Option, type Command } from 'commander';
import { AccountsError } from '../accounts/accounts-error.ts';
import { environmentNames, type EnvironmentName } from '../accounts/api-key.ts';
import type { Keyring } from '../accounts/keyring.ts';
import { masterKeyOf, openedKey, parseMasterKeys, type MasterKey } from '../accounts/master-key.ts';
import { sealedTexts } from '../accounts/sealed-texts.ts';
import { Vault } from '../accounts/vault.ts';
import type { KmsSettings } from '../config/config.ts';
import { loadKms } from '../config/load.ts';
import { CommandFailed, valid } from './failures.ts';
import type { CliIo } from './io.ts';
import { configOption } from './options.ts';
import type { AddStoreCommand, RunCommand, StoreSession } from './store-command.ts';

interface EnvironmentOption {
  readonly environment?: EnvironmentName;
}

/** Adds `master-key new|wrap|rewrap|list`. The first two read nothing but `kms`, so that a first key can be made. */
export function addMasterKeyCommands(group: Command, add: AddStoreCommand, io: CliIo, run: RunCommand): void {
  const command = (name: string, description: string, work: (kms: KmsSettings | undefined) => Promise<void>): void => {
    group
      .command(name)
      .description(description)
      .addOption(configOption(io))
      .action(({ config }: { config: string }) =>
        run(`master-key ${name}`, () => failing(() => work(valid(loadKms(config, io.env)).value))),
      );
  };
  command('new', 'make a master key; print its line, wrapped if there is a KMS, and its KCV to stderr', (kms) =>
    printLine(io, io.keyring(kms), createSecretKey(randomBytes(32))),
  );
  command('wrap', 'read a master key in the clear from stdin; print its line, wrapped by the KMS', async (kms) => {
    if (kms === undefined) throw new CommandFailed('there is no KMS to wrap it: set "kms"');
    const [key, ...more] = parseMasterKeys(await text(io.stdin)) ?? [];
    if (key?.key === undefined || more.length > 0) throw new CommandFailed('expected 32 bytes in base64 or hex');
    await printLine(io, io.keyring(kms), key.key);
  });
  const environment = new Option('--environment <environment>', 'only the keys of this environment');
  add('rewrap', "print the configured lines, wrapped by the KMS's current key")
    .addOption(environment.choices(environmentNames))
    .run(rewrap);
  add('list', 'list the configured master keys')
    .option('--usage', 'count the sealed texts that each of them opens')
    .run(list);
}

async function printLine({ stdout, stderr }: CliIo, keyring: Keyring, key: KeyObject): Promise<void> {
  const line = await keyring.wrap(key);
  await stderr.write(`KCV ${masterKeyOf(key).kcv}\n`);
  await stdout.write(`${line}\n`);
}

async function rewrap({ settings, keyring, masterKeys, io }: StoreSession, options: EnvironmentOption): Promise<void> {
  if (settings.masterKeys.every(({ wrapped }) => wrapped === undefined)) {
    throw new CommandFailed('no configured master key is wrapped by a KMS');
  }
  for (const key of await masterKeys()) {
    if (key.environment !== undefined && key.environment !== (options.environment ?? key.environment)) continue;
    await printLine(io, keyring, openedKey(key));
  }
}

/** A configured master key. */
interface Listed {
  readonly environment: EnvironmentName | null;
  /** The number of its line. */
  readonly place: number;
  readonly kcv: string;
  readonly provider: 'clear' | 'kms';
  readonly key_id: string | null;
  /** The sealed texts that it opens. */
  readonly usage?: number;
}

async function list(session: StoreSession, { usage }: { readonly usage?: true }): Promise<void> {
  const { settings, showList } = session;
  const keys = usage ? await session.masterKeys() : settings.masterKeys;
  const counts = usage ? await usageOf(session, keys) : undefined;
  const rows = keys.map((key, i): Listed => listed(key, keys, counts?.[i]));
  await showList(inTurn(rows), {
    head: ['ENVIRONMENT', 'LINE', 'KCV', 'PROVIDER', 'KEY ID', ...(usage ? ['USAGE'] : [])],
    row: ({ environment, place, kcv, provider, key_id: keyId, usage: count }) => [
      environment ?? 'both',
      String(place),
      kcv,
      provider,
      keyId ?? '-',
      ...(count === undefined ? [] : [String(count)]),
    ],
    empty: 'No master key is configured.',
  });
}

function listed(key: MasterKey, all: readonly MasterKey[], usage: number | undefined): Listed {
  const { environment = null, kcv, wrapped } = key;
  return {
    environment,
    place: all.filter((other) => other.environment === key.environment).indexOf(key) + 1,
    kcv,
    provider: wrapped === undefined ? 'clear' : 'kms',
    key_id: wrapped?.keyId ?? null,
    ...(usage !== undefined && { usage }),
  };
}

async function* inTurn<T>(items: readonly T[]): AsyncIterable<T> {
  yield* items;
}

/** How many sealed texts of the store each key opens. */
async function usageOf({ store, unreadable }: StoreSession, keys: readonly MasterKey[]): Promise<readonly number[]> {
  const vaults = keys.map((key) => new Vault([key]));
  const counts = keys.map(() => 0);
  for await (const account of store.list(undefined, unreadable)) {
    for (const { text: sealed, place } of sealedTexts(account)) {
      for (const [i, vault] of vaults.entries()) if (vault.opens(sealed, place)) counts[i] = (counts[i] ?? 0) + 1;
    }
  }
  return counts;
}

async function failing(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof AccountsError)) throw error;
    throw new CommandFailed(`${error.message} (${error.code})`);
  }
}

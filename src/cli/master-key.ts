import { generateKeySync, type KeyObject } from 'node:crypto';
import { text } from 'node:stream/consumers';
import { Option, type Command } from 'commander';
import { environmentNames, type EnvironmentName } from '../accounts/api-key.ts';
import type { Keyring } from '../accounts/keyring.ts';
import { keysFor, createMasterKey, openedKey, parseMasterKeys, getPlace } from '../accounts/master-key.ts';
import { sealedTexts } from '../accounts/sealed-texts.ts';
import { Vault } from '../accounts/vault.ts';
import { loadKms } from '../config/load.ts';
import { CommandFailed, valid } from './failures.ts';
import type { CliIo } from './io.ts';
import { configOption } from './options.ts';
import type { AddStoreCommand, RunCommand, StoreSession } from './store-command.ts';

/** Adds `master-key new|wrap|rewrap|list`. `new` and `wrap` read only `kms` from the file, so they work before the file is complete. */
export function addMasterKeyCommands(group: Command, add: AddStoreCommand, io: CliIo, run: RunCommand): void {
  const newLine = 'create a master key; print its line, wrapped if a KMS is configured, and its KCV to stderr';
  const wrappedLine = 'read an unwrapped master key from stdin; print its line, wrapped by the KMS';
  for (const [name, description] of [['new', newLine] as const, ['wrap', wrappedLine] as const]) {
    const command = group.command(name).description(description).addOption(configOption(io));
    command.action(({ config }: { config: string }) =>
      run(`master-key ${name}`, async () => {
        const kms = valid(loadKms(config, io.env)).value;
        if (name === 'wrap' && kms === undefined) throw new CommandFailed('there is no KMS to wrap the key: set "kms"');
        const key = name === 'new' ? generateKeySync('aes', { length: 256 }) : await readKey(io);
        await printLine(io, io.keyring(kms), key);
      }),
    );
  }
  add('rewrap', "print the configured lines, wrapped by the KMS's current key")
    .addOption(new Option('--environment <environment>', 'only the keys of this environment').choices(environmentNames))
    .run(rewrap);
  add('list', 'list the configured master keys')
    .option('--usage', 'count the sealed values that each key opens')
    .run(list);
}

async function readKey({ stdin }: CliIo): Promise<KeyObject> {
  const [key, ...more] = parseMasterKeys(await text(stdin)) ?? [];
  if (key?.key === undefined || more.length > 0) throw new CommandFailed('expected 32 bytes in base64 or hex');
  return key.key;
}

async function printLine({ stdout, stderr }: CliIo, keyring: Keyring, key: KeyObject): Promise<void> {
  const line = await keyring.wrap(key);
  await stderr.write(`KCV ${createMasterKey(key).kcv}\n`);
  await stdout.write(`${line}\n`);
}

async function rewrap(session: StoreSession, options: { readonly environment?: EnvironmentName }): Promise<void> {
  if (session.settings.masterKeys.every(({ wrapped }) => wrapped === undefined))
    throw new CommandFailed('no configured master key is wrapped by a KMS');
  const keys = await session.masterKeys();
  const chosen = options.environment === undefined ? keys : keysFor(options.environment, keys);
  for (const key of chosen ?? []) await printLine(session.io, session.keyring, openedKey(key));
}

async function list(session: StoreSession, { usage }: { readonly usage?: true }): Promise<void> {
  const configured = session.settings.masterKeys;
  // If no key is configured, the cause may be a problem with the file that contains the keys. `masterKeys()` throws that problem.
  const keys = usage === true || configured.length === 0 ? await session.masterKeys() : configured;
  const vaults = usage && keys.map((key) => new Vault([key]));
  const counts = vaults && (await countUsage(session, vaults));
  const rows = keys.map((key, i) => ({
    environment: key.environment ?? null,
    place: getPlace(key, keys),
    kcv: key.kcv,
    provider: key.wrapped === undefined ? 'clear' : 'kms',
    key_id: key.wrapped?.key_id ?? null,
    usage: counts?.[i],
  }));
  await session.showList(Promise.resolve(rows), {
    head: ['ENVIRONMENT', 'LINE', 'KCV', 'PROVIDER', 'KEY ID', ...(usage ? ['USAGE'] : [])],
    row: ({ environment, place, kcv, provider, key_id: keyId, usage: count }) =>
      [environment ?? 'both', place, kcv, provider, keyId ?? '-', ...(usage ? [count] : [])].map(String),
    empty: 'No master key is configured.',
  });
}

/** Counts the sealed values in the store that each vault opens. */
async function countUsage({ store, unreadable }: StoreSession, vaults: readonly Vault[]): Promise<readonly number[]> {
  const counts = vaults.map(() => 0);
  for await (const account of store.list(undefined, unreadable)) {
    for (const { text: sealed, place } of sealedTexts(account)) {
      for (const [i, vault] of vaults.entries()) if (vault.opens(sealed, place)) counts[i] = (counts[i] ?? 0) + 1;
    }
  }
  return counts;
}

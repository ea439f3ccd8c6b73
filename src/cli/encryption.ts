import { Option } from 'commander';
import { AccountsError } from '../accounts/accounts-error.ts';
import type { StoredCredentials } from '../accounts/store.ts';
import { unwrapCredentials } from '../accounts/unwrap-account.ts';
import { grace } from '../accounts/value-types.ts';
import type { EnvironmentName } from '../accounts/api-key.ts';
import type { EnabledView, EncryptionView } from '../accounts/views.ts';
import { encodings, type Encoding } from '../envelope/encoding.ts';
import { instant } from '../input/value-types.ts';
import { CommandFailed } from './failures.ts';
import { exitCodes } from './io.ts';
import { accountArgument, environmentOption, readAs } from './options.ts';
import type { AddStoreCommand, StoreSession } from './store-command.ts';
import { members, minute } from './table.ts';
import type { EpochMs } from '../times.ts';

interface Options {
  readonly environment: EnvironmentName;
}
type EnableOptions = Options & { readonly encoding?: Encoding; readonly grace?: number; readonly replace?: true };
type DisableOptions = Options & { readonly grace?: number };
type GraceOptions = Options & { readonly until?: EpochMs; readonly end?: true };

/** Adds `encryption enable|disable|grace|show`. */
export function addEncryptionCommands(add: AddStoreCommand): void {
  const command: AddStoreCommand = (name, description, access) =>
    add(name, description, access).addArgument(accountArgument('<account>')).addOption(environmentOption());

  command(
    'enable',
    'create a key and an IV and show them once; without --grace, plaintext or the previous key and IV are refused at once',
  )
    .addOption(
      new Option('--encoding <encoding>', 'encoding of sealed responses (default: unchanged, or hex)').choices(
        encodings,
      ),
    )
    .option(
      '--grace <duration>',
      'also accept the previous credentials, or plaintext if there are none, for this long, such as 24h',
      readAs(grace),
    )
    .option('--replace', 'replace credentials that are in use')
    .run(enable);

  command(
    'disable',
    'stop encrypting and delete the key and the IV; from then on, requests and responses are plaintext',
  )
    .option(
      '--grace <duration>',
      'keep opening envelopes and sealing their responses for this long, such as 24h',
      readAs(grace),
    )
    .run(disable);

  command('grace', 'change the end of a running grace period, or end it now')
    .option(
      '--until <time>',
      'new end of the grace period, such as 2026-12-01T00:00:00Z; at most 365 days from now',
      readAs(instant),
    )
    .addOption(new Option('--end', 'end the grace period now and delete the previous credentials').conflicts('until'))
    .run(changeGrace);

  command('show', 'show the encryption settings of an account, without the key').run(showEncryption);
}

async function enable(
  { operations, settings, actor, show, log }: StoreSession,
  id: string,
  options: EnableOptions,
): Promise<void> {
  const { environment, encoding, grace, replace = false } = options;
  const enabled = await operations.enableEncryption(id, environment, { encoding, grace, replace }, { actor });
  await show(enabled, () => enabledText(enabled));
  if (settings.masterKeys.length === 0) {
    log.warn(
      'the key and the IV are stored in the clear: set accounts.masterKey, then run "accounts rekey --new-master-key-file FILE" with the file of the master key',
    );
  }
}

async function disable({ operations, actor, show }: StoreSession, id: string, options: DisableOptions): Promise<void> {
  const { environment, grace } = options;
  const disabled = await operations.disableEncryption(id, environment, grace, { actor });
  const until = disabled.previous === null ? '' : `; envelopes are accepted until ${minute(disabled.previous.until)}`;
  await show(disabled, () => `Encryption is off for ${id} in ${environment}${until}.\n`);
}

async function changeGrace(
  { operations, actor, show }: StoreSession,
  id: string,
  options: GraceOptions,
): Promise<void> {
  const { environment, until, end } = options;
  if (until === undefined && end === undefined) {
    throw new CommandFailed('expected --until TIME or --end', exitCodes.usage);
  }
  const changed = await operations.changeGrace(id, environment, until, { actor });
  const state = changed.previous === null ? 'has ended' : `lasts until ${minute(changed.previous.until)}`;
  await show(changed, () => `The grace period of ${id} in ${environment} ${state}.\n`);
}

async function showEncryption(session: StoreSession, id: string, { environment }: Options): Promise<void> {
  const view = await session.operations.showEncryption(id, environment);
  const stored = (await session.store.read(id))?.encryption[environment];
  const compute = (credentials: StoredCredentials | undefined, isAccepted: boolean): Promise<string | undefined> =>
    computeFingerprint(session, id, environment, isAccepted ? credentials : undefined);
  const fingerprint = await compute(stored?.credentials, view.enabled);
  const previous = await compute(stored?.previous?.credentials, view.previous !== null);
  const shown = { ...view, fingerprint, previous: view.previous && { ...view.previous, fingerprint: previous } };
  await session.show(shown, () => members({ fingerprint, ...listFacts(view), 'previous fingerprint': previous }));
}

/** The credentials' fingerprint. Undefined if they cannot be unwrapped, so that the other settings are shown even without a master key. */
async function computeFingerprint(
  { vault, log }: StoreSession,
  id: string,
  environment: EnvironmentName,
  credentials: StoredCredentials | undefined,
): Promise<string | undefined> {
  try {
    return credentials && unwrapCredentials(credentials, id, environment, await vault()).fingerprint;
  } catch (error) {
    if (!(error instanceof AccountsError)) throw error;
    log.warn({ problem: error.message }, 'the fingerprint is not shown');
    return undefined;
  }
}

function enabledText(enabled: EnabledView): string {
  const { key = '', iv = '', fingerprint } = enabled;
  return `${members({ key, iv, fingerprint, ...listFacts(enabled) })}
The key and the IV are not shown again. Give all three to the merchant unchanged.
`;
}

function listFacts(view: EncryptionView): Record<string, string | undefined> {
  const { account, environment, enabled, encoding, previous } = view;
  return {
    account,
    environment,
    encryption: enabled ? 'on' : 'off',
    encoding,
    created: enabled ? minute(view.created_at) : undefined,
    ...(previous !== null && {
      'also accepts': `${previous.accepts === 'plaintext' ? 'plaintext' : 'the previous credentials'}, until ${minute(previous.until)}`,
      'last used': lastUse(previous.last_used_at),
    }),
  };
}

function lastUse(time: string | null | undefined): string {
  if (time === undefined) return 'not recorded by the file store: see "credentials" in the log';
  return time === null ? 'never' : minute(time);
}

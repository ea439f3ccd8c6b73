import { setTimeout as delay } from 'node:timers/promises';
import { AccountsError } from '../accounts/accounts-error.ts';
import type { EnvironmentName } from '../accounts/api-key.ts';
import type { Keyring } from '../accounts/keyring.ts';
import type { MasterKey } from '../accounts/master-key.ts';
import type { MemberPath } from '../input/member-path.ts';
import type { FileProblem } from '../yaml/file-problem.ts';
import type { KmsSettings, Settings, StoreSettings } from './config.ts';
import type { FileContent } from './loaded.ts';

/** What loading waits for: master keys to be unwrapped, with the configured KMS. */
export interface KeysNeeded {
  readonly kms: KmsSettings;
  readonly keys: readonly MasterKey[];
}

/** The same keys in the same order, or why one of them cannot be unwrapped. */
export type KeysAnswer = readonly (MasterKey | string)[];

export type AnswerKeys = (needed: KeysNeeded) => Promise<KeysAnswer>;

/** How often a start asks a KMS that is not there. Milliseconds. */
const retryInterval = 1_000;

export function masterKeyPath(store: StoreSettings['type'] | undefined, environment?: EnvironmentName): MemberPath {
  const path = store === 'postgres' ? ['accounts', 'postgres', 'masterKey'] : ['accounts', 'masterKey'];
  return environment === undefined ? path : [...path, environment];
}

/**
 * The settings with their master keys unwrapped, or with a problem for each that cannot be.
 *
 * @param running has keys that are not asked for again
 */
export function* unwrapKeys(
  sidecar: FileContent<Settings>,
  problemWith: (path: MemberPath, message: string) => FileProblem,
  running: StoreSettings | undefined,
): Generator<KeysNeeded, FileContent<Settings>, KeysAnswer> {
  if (!sidecar.ok) return sidecar;
  const { kms, store } = sidecar.value;
  const known = store.masterKeys.map((own) => {
    const same = running?.masterKeys.find(({ wrapped }) => wrapped !== undefined && wrapped.line === own.wrapped?.line);
    return { ...own, key: own.key ?? same?.key };
  });
  const missing = known.filter(({ key }) => key === undefined);
  const answer = kms === undefined || missing.length === 0 ? [] : yield { kms, keys: missing };
  const problems = answer.flatMap((found, i) =>
    typeof found === 'string' ? [problemWith(masterKeyPath(store.type, missing[i]?.environment), found)] : [],
  );
  if (problems.length > 0) return { ok: false, problems };
  const found = answer.filter((each) => typeof each === 'object');
  const masterKeys = known.map((own) => found[missing.indexOf(own)] ?? own);
  return { ...sidecar, value: { ...sidecar.value, store: { ...store, masterKeys } } };
}

/** Asks once for each key, as a reload does. @param isMistake tells the errors of the configuration; others are thrown */
export async function answerOnce(
  keyring: Keyring,
  keys: readonly MasterKey[],
  isMistake = (_error: AccountsError): boolean => true,
): Promise<KeysAnswer> {
  return Promise.all(
    keys.map((key) =>
      keyring.unwrap(key).catch((error: unknown) => {
        if (!(error instanceof AccountsError) || !isMistake(error)) throw error;
        return `${error.message} (${error.code})`;
      }),
    ),
  );
}

/**
 * Asks until the KMS is there, as a start does.
 *
 * @param waits called once, when the KMS is not there yet
 * @throws AccountsError `kms_unavailable` after `wait`, `kms_refused` at once
 */
export async function answerPatiently(
  keyring: Keyring,
  { kms: { wait }, keys }: KeysNeeded,
  waits: (error: AccountsError) => void,
): Promise<KeysAnswer> {
  const isOver = delay(wait, true, { ref: false });
  for (let tries = 1; ; tries += 1) {
    try {
      return await answerOnce(keyring, keys, ({ code }) => code === 'master_key_wrong');
    } catch (error) {
      if (!(error instanceof AccountsError) || error.code !== 'kms_unavailable') throw error;
      if (tries === 1) waits(error);
      if (await Promise.race([isOver, delay(retryInterval, false)])) throw error;
    }
  }
}

import { setTimeout as delay } from 'node:timers/promises';
import { AccountsError } from '../accounts/accounts-error.ts';
import type { Keyring } from '../accounts/keyring.ts';
import { unwrappedAs, type MasterKey } from '../accounts/master-key.ts';
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

export function masterKeyPath(store: StoreSettings['type'] | undefined): MemberPath {
  return store === 'postgres' ? ['accounts', 'postgres', 'masterKey'] : ['accounts', 'masterKey'];
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
    return same === undefined ? own : unwrappedAs(own, same);
  });
  const missing = known.filter(({ key }) => key === undefined);
  const answer = kms === undefined || missing.length === 0 ? [] : yield { kms, keys: missing };
  const problems = missing.flatMap(({ environment }, i) => {
    const found = answer[i];
    const path = [...masterKeyPath(store.type), ...(environment === undefined ? [] : [environment])];
    return typeof found === 'string' ? [problemWith(path, found)] : [];
  });
  if (problems.length > 0) return { ok: false, problems };
  const masterKeys = known.map((own) => {
    const found = answer[missing.indexOf(own)];
    return typeof found === 'object' ? unwrappedAs(own, found) : own;
  });
  return { ...sidecar, value: { ...sidecar.value, store: { ...store, masterKeys } } };
}

/** Asks once for each key, as a reload does. */
export async function answerOnce(keyring: Keyring, keys: readonly MasterKey[]): Promise<KeysAnswer> {
  return Promise.all(
    keys.map((key) =>
      keyring.unwrap(key).catch((error: unknown) => {
        if (!(error instanceof AccountsError)) throw error;
        return `${error.message} (${error.code})`;
      }),
    ),
  );
}

/**
 * Asks for each key until the KMS is there, as a start does.
 *
 * @param wait milliseconds
 * @param waits called once, when the KMS is not there yet
 * @throws AccountsError `kms_unavailable` after that time, `kms_refused` at once
 */
export async function answerPatiently(
  keyring: Keyring,
  { kms: { wait }, keys }: KeysNeeded,
  waits: (error: AccountsError) => void,
): Promise<KeysAnswer> {
  const isOver = delay(wait, true, { ref: false });
  let hasWaited = false;
  const answer: (MasterKey | string)[] = [];
  for (const key of keys) {
    for (let found; found === undefined;) {
      try {
        found = await answerTo(keyring, key);
        answer.push(found);
      } catch (error) {
        if (!(error instanceof AccountsError) || error.code !== 'kms_unavailable') throw error;
        if (!hasWaited) waits(error);
        hasWaited = true;
        if (await Promise.race([isOver, delay(retryInterval, false)])) throw error;
      }
    }
  }
  return answer;
}

/** A key of another value is a mistake in the configuration, which is reported with the others. */
async function answerTo(keyring: Keyring, key: MasterKey): Promise<MasterKey | string> {
  try {
    return await keyring.unwrap(key);
  } catch (error) {
    if (!(error instanceof AccountsError) || error.code !== 'master_key_wrong') throw error;
    return `${error.message} (${error.code})`;
  }
}

import type { Account } from './account.ts';
import {
  environmentNames,
  getEnvironment,
  isValidKey,
  keyPrefixes,
  getKind,
  type EnvironmentName,
  type KeyKind,
  type KeyPrefix,
} from './api-key.ts';
import { isDue, isExpiring } from './conditions.ts';
import type { EpochMs } from '../times.ts';

const rotations = ['current', 'due'] as const;
export type Rotation = (typeof rotations)[number];

/** In which environments an account encrypts. */
type EncryptionLabel = 'none' | 'test' | 'live' | 'both';

/** How many valid keys expire soon, and when the first valid key expires. */
export interface ExpiringKeys {
  /** Keys that expire within `expiryNotice`. */
  readonly count: number;
  /** The earliest expiry; Infinity if no key expires. */
  readonly next: EpochMs;
}

/** Counts of accounts, valid API keys and credentials in use, grouped by the labels of the metrics. */
export interface AccountStats {
  readonly accounts: ReadonlyMap<EncryptionLabel, number>;
  readonly apiKeys: readonly { environment: EnvironmentName; kind: KeyKind; rotation: Rotation; count: number }[];
  readonly expiring: readonly ({ environment: EnvironmentName; kind: KeyKind } & ExpiringKeys)[];
  readonly credentials: readonly { environment: EnvironmentName; rotation: Rotation; count: number }[];
}

/** Counts by label. A label without an entry has the count 0. */
export interface Counts {
  readonly accounts: Map<EncryptionLabel, number>;
  readonly apiKeys: Map<`${KeyPrefix} ${Rotation}`, number>;
  readonly expiring: Map<KeyPrefix, ExpiringKeys>;
  readonly credentials: Map<`${EnvironmentName} ${Rotation}`, number>;
}

const noKeys: ExpiringKeys = { count: 0, next: Infinity };

/** Returns a count for every combination of labels, with 0 for those that are missing. */
export function addLabels({ accounts, apiKeys, expiring, credentials }: Counts): AccountStats {
  const prefixes = environmentNames.flatMap((name) => keyPrefixes.filter((prefix) => getEnvironment(prefix) === name));
  const toLabels = (prefix: KeyPrefix) => ({ environment: getEnvironment(prefix), kind: getKind(prefix) });
  return {
    accounts: new Map((['none', 'test', 'live', 'both'] as const).map((label) => [label, accounts.get(label) ?? 0])),
    apiKeys: prefixes.flatMap((prefix) =>
      rotations.map((rotation) => {
        return { ...toLabels(prefix), rotation, count: apiKeys.get(`${prefix} ${rotation}`) ?? 0 };
      }),
    ),
    expiring: prefixes.map((prefix) => Object.assign(toLabels(prefix), expiring.get(prefix) ?? noKeys)),
    credentials: environmentNames.flatMap((environment) =>
      rotations.map((rotation) => {
        return { environment, rotation, count: credentials.get(`${environment} ${rotation}`) ?? 0 };
      }),
    ),
  };
}

/**
 * Counts accounts, keys and credentials. Expired and revoked keys are not counted. Credentials of unknown age count as current, not as due
 * for rotation.
 */
export function countAccounts(accounts: Iterable<Account>, now: EpochMs): AccountStats {
  const counts: Counts = { accounts: new Map(), apiKeys: new Map(), expiring: new Map(), credentials: new Map() };
  for (const { keys, encryption } of accounts) {
    add(counts.accounts, encryptionLabel(encryption.test?.type === 'on', encryption.live?.type === 'on'));
    for (const key of keys) {
      if (!isValidKey(key, now)) continue;
      const { prefix, createdAt, expiresAt = Infinity } = key;
      add(counts.apiKeys, `${prefix} ${classifyRotation(createdAt, now)}`);
      const { count, next } = counts.expiring.get(prefix) ?? noKeys;
      const more = isExpiring(key, now) ? 1 : 0;
      counts.expiring.set(prefix, { count: count + more, next: Math.min(next, expiresAt) });
    }
    for (const environment of environmentNames) {
      const encrypts = encryption[environment];
      if (encrypts?.type !== 'on') continue;
      add(counts.credentials, `${environment} ${classifyRotation(encrypts.createdAt ?? now, now)}`);
    }
  }
  return addLabels(counts);
}

export function encryptionLabel(test: boolean, live: boolean): EncryptionLabel {
  if (test && live) return 'both';
  if (test) return 'test';
  return live ? 'live' : 'none';
}

function classifyRotation(createdAt: EpochMs, now: EpochMs): Rotation {
  return isDue(createdAt, now) ? 'due' : 'current';
}

function add<L>(counts: Map<L, number>, label: L): void {
  counts.set(label, (counts.get(label) ?? 0) + 1);
}

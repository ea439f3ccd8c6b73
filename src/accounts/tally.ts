import type { Account } from './account.ts';
import {
  environmentNames,
  environmentOf,
  isValidKey,
  keyKinds,
  kindOf,
  type EnvironmentName,
  type KeyKind,
} from './api-key.ts';

/** The age from which rotation is advised: six months of 30 days, in milliseconds. */
export const rotationAge = 180 * 86_400_000;

/** How long before its end an API key counts as expiring, in milliseconds. */
export const expiryNotice = 30 * 86_400_000;

const rotations = ['current', 'due'] as const;
export type Rotation = (typeof rotations)[number];

/** In which environments an account encrypts. */
export type EncryptionLabel = 'none' | 'test' | 'live' | 'both';

/** Valid keys that end. */
export interface ExpiringKeys {
  /** Keys that end within `expiryNotice`. */
  readonly count: number;
  /** The earliest end, epoch milliseconds; Infinity if no key ends. */
  readonly next: number;
}

/** Which keys are counted together. */
export type KeyLabel = `${EnvironmentName} ${KeyKind} ${Rotation}`;

/** Counts of accounts, valid API keys and credentials in use, by the labels of the metrics. */
export interface Tally {
  readonly accounts: ReadonlyMap<EncryptionLabel, number>;
  readonly apiKeys: readonly { environment: EnvironmentName; kind: KeyKind; rotation: Rotation; count: number }[];
  readonly expiring: readonly ({ environment: EnvironmentName; kind: KeyKind } & ExpiringKeys)[];
  readonly credentials: readonly { environment: EnvironmentName; rotation: Rotation; count: number }[];
}

/** Counts by their labels; a missing one is 0. */
export interface Counts {
  readonly accounts: ReadonlyMap<EncryptionLabel, number>;
  readonly apiKeys: ReadonlyMap<KeyLabel, number>;
  readonly expiring: ReadonlyMap<`${EnvironmentName} ${KeyKind}`, ExpiringKeys>;
  readonly credentials: ReadonlyMap<`${EnvironmentName} ${Rotation}`, number>;
}

const none: ExpiringKeys = { count: 0, next: Infinity };

/** A tally of counts, with all labels. */
export function tallyOfCounts({ accounts, apiKeys, expiring, credentials }: Counts): Tally {
  return {
    accounts: new Map((['none', 'test', 'live', 'both'] as const).map((label) => [label, accounts.get(label) ?? 0])),
    apiKeys: environmentNames.flatMap((environment) =>
      keyKinds.flatMap((kind) =>
        rotations.map((rotation) => {
          return { environment, kind, rotation, count: apiKeys.get(`${environment} ${kind} ${rotation}`) ?? 0 };
        }),
      ),
    ),
    expiring: environmentNames.flatMap((environment) =>
      keyKinds.map((kind) => Object.assign({ environment, kind }, expiring.get(`${environment} ${kind}`) ?? none)),
    ),
    credentials: environmentNames.flatMap((environment) =>
      rotations.map((rotation) => {
        return { environment, rotation, count: credentials.get(`${environment} ${rotation}`) ?? 0 };
      }),
    ),
  };
}

/**
 * Counts accounts, keys and credentials.
 *
 * @param now epoch milliseconds: expired and revoked keys do not count, old ones are due for rotation. Credentials of
 *   unknown age count as current.
 */
export function tallyOf(accounts: Iterable<Account>, now: number): Tally {
  const counts = {
    accounts: new Map<EncryptionLabel, number>(),
    apiKeys: new Map<KeyLabel, number>(),
    expiring: new Map<`${EnvironmentName} ${KeyKind}`, ExpiringKeys>(),
    credentials: new Map<`${EnvironmentName} ${Rotation}`, number>(),
  };
  for (const { keys, encryption } of accounts) {
    add(counts.accounts, encryptionLabel(encryption.test?.kind === 'on', encryption.live?.kind === 'on'));
    for (const key of keys) {
      if (!isValidKey(key, now)) continue;
      const { prefix, createdAt, expiresAt = Infinity } = key;
      const label = `${environmentOf(prefix)} ${kindOf(prefix)}` as const;
      add(counts.apiKeys, `${label} ${rotationOf(createdAt, now)}`);
      const { count, next } = counts.expiring.get(label) ?? none;
      const isExpiring = expiresAt <= now + expiryNotice;
      counts.expiring.set(label, { count: count + Number(isExpiring), next: Math.min(next, expiresAt) });
    }
    for (const environment of environmentNames) {
      const encrypts = encryption[environment];
      if (encrypts?.kind !== 'on') continue;
      add(counts.credentials, `${environment} ${rotationOf(encrypts.createdAt ?? now, now)}`);
    }
  }
  return tallyOfCounts(counts);
}

export function encryptionLabel(test: boolean, live: boolean): EncryptionLabel {
  if (test && live) return 'both';
  if (test) return 'test';
  return live ? 'live' : 'none';
}

function rotationOf(createdAt: number, now: number): Rotation {
  return now - createdAt >= rotationAge ? 'due' : 'current';
}

function add<L>(counts: Map<L, number>, label: L): void {
  counts.set(label, (counts.get(label) ?? 0) + 1);
}

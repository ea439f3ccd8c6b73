import type { Account } from './account.ts';
import { environmentNames, environmentOf, keyKinds, kindOf, type EnvironmentName, type KeyKind } from './api-key.ts';

/** The age from which rotation is advised: six months of 30 days, in milliseconds. */
export const rotationAge = 180 * 86_400_000;

const rotations = ['current', 'due'] as const;
export type Rotation = (typeof rotations)[number];

/** In which environments an account encrypts. */
export type EncryptionLabel = 'none' | 'test' | 'live' | 'both';

/** Which keys are counted together. */
export type KeyLabel = `${EnvironmentName} ${KeyKind} ${Rotation}`;

/** Numbers of accounts, of API keys that are valid, and of credentials in use, by what operators watch. */
export interface Tally {
  readonly accounts: ReadonlyMap<EncryptionLabel, number>;
  readonly apiKeys: readonly { environment: EnvironmentName; kind: KeyKind; rotation: Rotation; count: number }[];
  readonly credentials: readonly { environment: EnvironmentName; rotation: Rotation; count: number }[];
}

/** Counts by their labels; what is missing is none. */
export interface Counts {
  readonly accounts: ReadonlyMap<EncryptionLabel, number>;
  readonly apiKeys: ReadonlyMap<KeyLabel, number>;
  readonly credentials: ReadonlyMap<`${EnvironmentName} ${Rotation}`, number>;
}

/** A tally of counts, with all labels. */
export function tallyOfCounts({ accounts, apiKeys, credentials }: Counts): Tally {
  return {
    accounts: new Map((['none', 'test', 'live', 'both'] as const).map((label) => [label, accounts.get(label) ?? 0])),
    apiKeys: environmentNames.flatMap((environment) =>
      keyKinds.flatMap((kind) =>
        rotations.map((rotation) => {
          return { environment, kind, rotation, count: apiKeys.get(`${environment} ${kind} ${rotation}`) ?? 0 };
        }),
      ),
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
    credentials: new Map<`${EnvironmentName} ${Rotation}`, number>(),
  };
  for (const { keys, encryption } of accounts) {
    add(counts.accounts, encryptionLabel(encryption.test !== undefined, encryption.live !== undefined));
    for (const { prefix, createdAt, expiresAt = Infinity, revokedAt } of keys) {
      if (now >= expiresAt || revokedAt !== undefined) continue;
      add(counts.apiKeys, `${environmentOf(prefix)} ${kindOf(prefix)} ${rotationOf(createdAt, now)}`);
    }
    for (const environment of environmentNames) {
      const encrypts = encryption[environment];
      if (encrypts === undefined) continue;
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

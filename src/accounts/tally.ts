import type { Account } from './account.ts';
import { environmentNames, environmentOf, kindOf, type EnvironmentName, type KeyKind } from './api-key.ts';

/** The age from which rotation is advised: six months of 30 days, in milliseconds. */
const rotationAge = 180 * 86_400_000;

export type Rotation = 'current' | 'due';

/** In which environments an account encrypts. */
export type EncryptionLabel = 'none' | 'test' | 'live' | 'both';

/** Numbers of accounts, of API keys that are valid, and of credentials in use, by what operators watch. */
export interface Tally {
  readonly accounts: ReadonlyMap<EncryptionLabel, number>;
  readonly apiKeys: readonly { environment: EnvironmentName; kind: KeyKind; rotation: Rotation; count: number }[];
  readonly credentials: readonly { environment: EnvironmentName; rotation: Rotation; count: number }[];
}

/**
 * Counts accounts, keys and credentials.
 *
 * @param now epoch milliseconds: expired and revoked keys do not count, old ones are due for rotation. Credentials of
 *   unknown age count as current.
 */
export function tallyOf(accounts: Iterable<Account>, now: number): Tally {
  const byEncryption = new Map<EncryptionLabel, number>([
    ['none', 0],
    ['test', 0],
    ['live', 0],
    ['both', 0],
  ]);
  const keyCounts = new Map<string, number>();
  const credentialCounts = new Map<string, number>();
  for (const { keys, encryption } of accounts) {
    const label = encryptionLabel(encryption.test !== undefined, encryption.live !== undefined);
    byEncryption.set(label, (byEncryption.get(label) ?? 0) + 1);
    for (const { prefix, createdAt, expiresAt = Infinity, revokedAt = Infinity } of keys) {
      if (now < expiresAt && now < revokedAt)
        add(keyCounts, environmentOf(prefix), kindOf(prefix), rotation(createdAt, now));
    }
    for (const environment of environmentNames) {
      const { createdAt = now } = encryption[environment] ?? {};
      if (encryption[environment] !== undefined) add(credentialCounts, environment, rotation(createdAt, now));
    }
  }
  const rotations = ['current', 'due'] as const;
  return {
    accounts: byEncryption,
    apiKeys: environmentNames.flatMap((environment) =>
      (['public', 'secret'] as const).flatMap((kind) =>
        rotations.map((is) => ({
          environment,
          kind,
          rotation: is,
          count: keyCounts.get(`${environment} ${kind} ${is}`) ?? 0,
        })),
      ),
    ),
    credentials: environmentNames.flatMap((environment) =>
      rotations.map((is) => ({ environment, rotation: is, count: credentialCounts.get(`${environment} ${is}`) ?? 0 })),
    ),
  };
}

function encryptionLabel(test: boolean, live: boolean): EncryptionLabel {
  if (test && live) return 'both';
  if (test) return 'test';
  return live ? 'live' : 'none';
}

function rotation(createdAt: number, now: number): Rotation {
  return now - createdAt >= rotationAge ? 'due' : 'current';
}

function add(counts: Map<string, number>, ...labels: string[]): void {
  const key = labels.join(' ');
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

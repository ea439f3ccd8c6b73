import { environmentNames, isValidKey, type ApiKey } from './api-key.ts';
import type { Condition, Selection, StoredAccount, StoredEncryption } from './store.ts';
import type { EpochMs } from '../times.ts';

const day = 86_400_000;

/** The age from which rotation is advised: six months of 30 days, in milliseconds. */
export const rotationAge = 180 * day;

/** How long before its expiry an API key counts as expiring, in milliseconds. */
export const expiryNotice = 30 * day;

/** How long a key may be idle before it counts as unused, in milliseconds. */
export const idleTime = 30 * day;

/** The conditions by which a list of accounts can be filtered. */
export const accountFilters = [
  'inactive',
  'encrypting',
  'due',
  'expiring',
  'unused',
] as const satisfies readonly Condition[];
export type AccountFilter = (typeof accountFilters)[number];

/** Whether a key or credentials created at `createdAt` are due for rotation. */
export function isDue(createdAt: EpochMs, now: EpochMs): boolean {
  return now - createdAt >= rotationAge;
}

/** Whether a key expires within `expiryNotice`, or has expired. */
export function isExpiring({ expiresAt = Infinity }: ApiKey, now: EpochMs): boolean {
  return expiresAt <= now + expiryNotice;
}

/** Why a valid key needs attention. */
export const keyWarnings = ['due', 'expiring'] as const;
type KeyWarning = (typeof keyWarnings)[number];

/** The reasons why a key needs attention; empty if the key is no longer valid. */
export function listWarnings(key: ApiKey, now: EpochMs): KeyWarning[] {
  if (!isValidKey(key, now)) return [];
  const holds = { due: isDue(key.createdAt, now), expiring: isExpiring(key, now) };
  return keyWarnings.filter((warning) => holds[warning]);
}

/** Whether a grace period is running. */
export function isInGrace({ previous }: StoredEncryption, now: EpochMs): boolean {
  return previous !== undefined && now < previous.until;
}

/** For each condition, whether it applies to an account at a given time. The SQL in postgres/conditions.ts states the same rules. */
const applies: Readonly<Record<Condition, (account: StoredAccount, now: EpochMs) => boolean>> = {
  inactive: ({ active }) => !active,
  encrypting: (account) => listEncryptions(account).some(({ enabled }) => enabled),
  due: (account, now) =>
    account.keys.some((key) => listWarnings(key, now).includes('due')) ||
    listEncryptions(account).some(({ enabled, credentials }) => enabled && isDue(credentials?.createdAt ?? now, now)),
  expiring: ({ keys }, now) => keys.some((key) => listWarnings(key, now).includes('expiring')),
  unused: ({ keys }, now) =>
    keys.some((key) => isValidKey(key, now) && (key.lastUsedAt ?? key.createdAt) <= now - idleTime),
  in_grace: (account, now) => listEncryptions(account).some((each) => isInGrace(each, now)),
};

function listEncryptions({ encryption }: StoredAccount): readonly StoredEncryption[] {
  return environmentNames.map((name) => encryption[name]).filter((each) => each !== undefined);
}

/** Whether a selection includes an account. An undefined selection includes all accounts. */
export function isSelected(account: StoredAccount, selection: Selection | undefined): boolean {
  if (selection === undefined) return true;
  const { search = '', anyOf, now } = selection;
  const isFound = [account.id, account.name].some((text) => text.toLowerCase().includes(search.toLowerCase()));
  return isFound && (anyOf?.some((condition) => applies[condition](account, now)) ?? true);
}

import { z } from 'zod';
import { isDeepStrictEqual } from 'node:util';
import { environmentNames, keyKinds, type EnvironmentName } from './api-key.ts';
import { isDue, keyWarnings, listWarnings } from './conditions.ts';
import type { StoredAccount } from './store.ts';
import { viewEncryption, viewKey, type Viewing } from './views.ts';

/** What can be due: API keys of each kind, and the credentials of an account in one environment. */
export const dueKinds = [...keyKinds, 'credentials'] as const;
export type DueKind = (typeof dueKinds)[number];

const date = z.string().meta({ format: 'date-time' });

export const dueView = z
  .object({
    account: z.string().describe('The id of its account.'),
    environment: z.enum(environmentNames),
    kind: z.enum(dueKinds),
    id: z.string().nullable().describe('The id of the key; null for credentials.'),
    name: z.string().nullable().describe('What the owner of the key calls it.'),
    hint: z
      .string()
      .nullable()
      .describe('The key with its middle left out, such as `sk_live_…oiTq`; null if not known.'),
    warnings: z
      .array(z.enum(keyWarnings))
      .describe('`due`: older than 180 days, so it should be replaced. `expiring`: it expires within 30 days.'),
    created_at: date.nullable(),
    expires_at: date.nullable(),
    last_used_at: date
      .nullable()
      .optional()
      .describe('When the key was last used, to within a few minutes; null if never. Absent if it is not recorded.'),
  })
  .describe('An API key or credentials that should be replaced.');
export type DueView = z.output<typeof dueView>;

/** Restricts a list of due keys and credentials. */
export interface DueFilter {
  readonly environment?: EnvironmentName | undefined;
  readonly kind?: DueKind | undefined;
}

/** The keys and credentials of an account that are due for rotation or expire soon. */
export function listDue(account: StoredAccount, viewing: Viewing, { environment, kind }: DueFilter): DueView[] {
  const keys = account.keys
    .filter((key) => listWarnings(key, viewing.now).length > 0)
    .map((key): DueView => {
      const { state: _state, revoked_at: _revoked, ...view } = viewKey(account.id, key, viewing);
      return view;
    });
  const credentials = environmentNames
    .map((name) => viewEncryption(account, name, viewing))
    .filter((each) => each.created_at !== null && isDue(Date.parse(each.created_at), viewing.now))
    .map(({ environment, created_at }): DueView => {
      return {
        account: account.id,
        environment,
        kind: 'credentials',
        id: null,
        name: null,
        hint: null,
        warnings: ['due'],
        created_at,
        expires_at: null,
      };
    });
  return [...keys, ...credentials].filter(
    (each) =>
      (environment === undefined || each.environment === environment) && (kind === undefined || each.kind === kind),
  );
}

/** The position of a key or of credentials in a list sorted by urgency. */
export type DuePlace = readonly (string | number)[];

/**
 * The position of a view in a list sorted by urgency. Keys that expire soon come first, earliest expiry first, because requests with an
 * expired key are refused. Old keys and credentials follow, oldest first. The values after the time make each position unique.
 */
export function locate({ account, environment, kind, id, warnings, created_at, expires_at }: DueView): DuePlace {
  const expires = warnings.includes('expiring');
  const time = Date.parse((expires ? expires_at : created_at) ?? '');
  return [expires ? 0 : 1, time, account, environment, kind, id ?? ''];
}

/** Compares two places, for sorting by urgency. */
export function compareUrgency(a: DuePlace, b: DuePlace): number {
  const at = a.findIndex((part, i) => part !== b[i]);
  const [one, other] = [a[at], b[at]];
  if (one === undefined || other === undefined) return 0;
  return one < other ? -1 : 1;
}

/** Keeps only the most urgent of the views that are added, so that memory stays bounded. */
export class MostUrgent {
  readonly #most: number;
  readonly #after: DuePlace | undefined;
  readonly #kept: { readonly place: DuePlace; readonly view: DueView }[] = [];

  /** @param most maximum number of views to keep @param after if set, only views after this place are kept */
  constructor(most: number, after: DuePlace | undefined) {
    this.#most = most;
    this.#after = after;
  }

  add(view: DueView): void {
    const place = locate(view);
    if (this.#after !== undefined && compareUrgency(place, this.#after) <= 0) return;
    const last = this.#kept.at(-1);
    if (last !== undefined && this.#kept.length === this.#most && compareUrgency(last.place, place) < 0) return;
    let [low, high] = [0, this.#kept.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const kept = this.#kept[middle];
      if (kept !== undefined && compareUrgency(kept.place, place) < 0) low = middle + 1;
      else high = middle;
    }
    this.#kept.splice(low, 0, { place, view });
    if (this.#kept.length > this.#most) this.#kept.pop();
  }

  /** The views that were kept, most urgent first. */
  get list(): readonly DueView[] {
    return this.#kept.map(({ view }) => view);
  }
}

/** Encodes a place as the `next` of a page. */
export function writePlace(place: DuePlace): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url');
}

/** Decodes a place that `writePlace` has encoded. @returns undefined if `written` is not a place */
export function readPlace(written: string): DuePlace | undefined {
  try {
    const place = JSON.parse(Buffer.from(written, 'base64url').toString()) as unknown;
    if (!Array.isArray(place)) return undefined;
    const types = place.map((part) => typeof part);
    return isDeepStrictEqual(types, ['number', 'number', 'string', 'string', 'string', 'string'])
      ? (place as DuePlace)
      : undefined;
  } catch {
    return undefined;
  }
}

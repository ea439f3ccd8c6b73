import type { AuditEvent, StoredAccount } from './store.ts';

/** The view of a repeated request. The change was made before, and its secret was shown then. */
export function repeated<View extends object>(view: View): View {
  return 'secret_shown' in view ? { ...view, secret_shown: false } : view;
}

type Source = Pick<AuditEvent, 'actor' | 'origin' | 'requestId'>;

/** Who asked for a change, and from where, for its event. */
export function pickSource({ actor, origin, requestId }: Source): Source {
  return { actor, origin, requestId };
}

/** A change that was decided on. */
export interface ChangeOutcome<View, Secret> {
  /** The new version of the account; undefined if nothing changes, or if the account is removed. */
  readonly account: StoredAccount | undefined;
  readonly removed?: true;
  /** The result for the caller, also if the request is repeated. */
  readonly view: View;
  /** The part of the result that is shown only once. */
  readonly secret?: Secret;
  readonly details: AuditEvent['details'];
}

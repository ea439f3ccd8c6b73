import { signal } from '@preact/signals';

type Role = 'viewer' | 'operator' | 'admin';

/** The signed-in operator, as the server reports it. */
export interface Session {
  readonly name: string;
  readonly role: Role;
  /** The one account that the token may see; null: all. */
  readonly account: string | null;
  /** RFC 3339. */
  readonly expires_at: string;
  /** False: the accounts are in a file that this sidecar cannot write. */
  readonly accounts_writable: boolean;
}

/** Undefined: not known yet. Null: not signed in. */
export const session = signal<Session | null | undefined>(undefined);

/** Whether the sign-in page says that a session has ended. */
export const sessionEnded = signal(false);

/** Whether the API is unreachable. Pages then keep their data and say so. */
export const unreachable = signal(false);

/** Whether the page offers changes. The API itself refuses those that are not permitted. */
export function mayChange(): boolean {
  return hasRoleToChange() && session.value?.accounts_writable === true;
}

/** Whether changes are not offered only because the accounts cannot be written here. */
export function isReadOnly(): boolean {
  return hasRoleToChange() && session.value?.accounts_writable === false;
}

function hasRoleToChange(): boolean {
  return session.value !== undefined && session.value !== null && session.value.role !== 'viewer';
}

/** Drops all data of the page, because the server no longer accepts the session. */
export function endSession(): void {
  if (session.value !== null && session.value !== undefined) sessionEnded.value = true;
  session.value = null;
}

const address = '/console/session';

/** Loads the signed-in operator from the server. */
export async function resume(): Promise<void> {
  try {
    const response = await fetch(address);
    session.value = response.status === 200 ? ((await response.json()) as Session) : null;
  } catch {
    unreachable.value = true;
    session.value = null;
  }
}

/** Exchanges a token for a session cookie. Returns why that failed, or undefined. */
export async function signIn(token: string): Promise<'wrong' | 'unreachable' | undefined> {
  let response: Response;
  try {
    response = await fetch(address, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token }),
    });
  } catch {
    return 'unreachable';
  }
  if (!response.ok) return response.status >= 500 ? 'unreachable' : 'wrong';
  unreachable.value = false;
  sessionEnded.value = false;
  session.value = (await response.json()) as Session;
  return undefined;
}

export async function signOut(): Promise<void> {
  try {
    await fetch(address, { method: 'DELETE' });
  } catch {
    // The cookie expires later, but the page's data is dropped now.
  }
  session.value = null;
  sessionEnded.value = false;
}

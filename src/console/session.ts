import { signal } from '@preact/signals';

type Role = 'viewer' | 'operator' | 'admin';

/** The signed-in operator, as the server reports it. */
export interface Session {
  readonly name: string;
  readonly role: Role;
  /** The only account that the token gives access to; null if it gives access to all accounts. */
  readonly account: string | null;
  /** A time in RFC 3339 format. */
  readonly expires_at: string;
  /** False if the accounts are in a file that this sidecar cannot write. */
  readonly accounts_writable: boolean;
}

/** The current session. Undefined until the server has responded; null if nobody is signed in. */
export const session = signal<Session | null | undefined>(undefined);

/** Whether the sign-in page says that a session has ended. */
export const sessionEnded = signal(false);

/** Whether the API is unreachable. While it is unreachable, pages keep their data and show a message. */
export const unreachable = signal(false);

/** Whether the page offers changes. The API itself refuses changes that are not permitted. */
export function mayChange(): boolean {
  return hasRoleToChange() && session.value?.accounts_writable === true;
}

/** Whether the page offers to rename accounts. */
export function mayRename(): boolean {
  return mayChange() && session.value?.account === null;
}

/** Whether the page offers to activate and deactivate accounts. */
export function mayActivate(): boolean {
  return mayRename() && session.value?.role === 'admin';
}

/** Whether the page offers to disable encryption. */
export function mayDisable(environment: 'test' | 'live'): boolean {
  return mayChange() && (environment === 'test' || session.value?.role === 'admin');
}

/** Whether the operator's role allows changes, but the accounts cannot be written here. */
export function isReadOnly(): boolean {
  return hasRoleToChange() && session.value?.accounts_writable === false;
}

function hasRoleToChange(): boolean {
  return session.value !== undefined && session.value !== null && session.value.role !== 'viewer';
}

/** Drops all of the page's data. Called when the server no longer accepts the session. */
export function endSession(): void {
  if (session.value !== null && session.value !== undefined) sessionEnded.value = true;
  session.value = null;
  sessionStorage.removeItem(storedKey);
}

const address = '/console/session';

/** The name under which `sessionStorage` holds this window's half of the session. */
const storedKey = 'session-key';

/**
 * The header with this window's half of the session. The browser also sends the cookie to other ports of this host, but not this header.
 */
export function sessionHeader(): Readonly<Record<string, string>> {
  const key = sessionStorage.getItem(storedKey);
  return key === null ? {} : { 'Session-Key': key };
}

/** Whether a request was part of this window's current session. */
export function isOfSession(headers: Headers): boolean {
  return headers.get('Session-Key') === sessionStorage.getItem(storedKey);
}

/** Cancels the requests in the current session. */
let requests = new AbortController();

/**
 * Aborted when the operator signs out. Without this, requests that the server receives after the end of the session would be refused, and
 * the browser would report each one as an error.
 */
export function sessionSignal(): AbortSignal {
  return requests.signal;
}

/** Loads the signed-in operator from the server. */
export async function resume(): Promise<void> {
  try {
    const response = await fetch(address, { headers: sessionHeader() });
    session.value = response.status === 200 ? ((await response.json()) as Session) : null;
  } catch {
    unreachable.value = true;
    session.value = null;
  }
}

/**
 * Puts the token into a header, which arrives before the body. Once the header has arrived, the listener no longer evicts this connection
 * in favour of one without a valid token. Text that a header cannot carry is not a token.
 */
function authorization(token: string): Readonly<Record<string, string>> {
  return /^[!-~]+$/.test(token) ? { authorization: `Bearer ${token}` } : {};
}

/** Exchanges a token for a session. Returns the reason if the exchange failed; undefined if it succeeded. */
export async function signIn(token: string): Promise<'wrong' | 'core' | 'unreachable' | undefined> {
  let response: Response;
  try {
    response = await fetch(address, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...authorization(token) },
      body: JSON.stringify({ token }),
    });
  } catch {
    return 'unreachable';
  }
  if (response.status === 403) return 'core';
  if (!response.ok) return response.status >= 500 ? 'unreachable' : 'wrong';
  unreachable.value = false;
  sessionEnded.value = false;
  const { session_key: key, ...begun } = (await response.json()) as Session & { readonly session_key: string };
  sessionStorage.setItem(storedKey, key);
  requests = new AbortController();
  session.value = begun;
  return undefined;
}

/**
 * How long a window may be left unused, in milliseconds. The server cannot tell whether a window is used, because the page polls the server
 * even if nobody uses the page.
 */
const idleTime = 30 * 60_000;

/** Ends the session of a window that is not being used. */
export function endWhenIdle(): void {
  let usedAt = Date.now();
  for (const event of ['pointerdown', 'keydown', 'scroll'] as const) {
    addEventListener(event, () => (usedAt = Date.now()), { capture: true, passive: true });
  }
  setInterval(() => {
    if (session.value === null || session.value === undefined || Date.now() - usedAt < idleTime) return;
    void signOut().then(() => (sessionEnded.value = true));
  }, 15_000);
}

export async function signOut(): Promise<void> {
  requests.abort();
  try {
    await fetch(address, { method: 'DELETE', headers: sessionHeader() });
  } catch {
    // If the server is unreachable, the session expires later, but the page's data is dropped now.
  }
  sessionStorage.removeItem(storedKey);
  session.value = null;
  sessionEnded.value = false;
}

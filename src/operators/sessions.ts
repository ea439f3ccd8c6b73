import { randomBytes } from 'node:crypto';
import type { OperatorsToken } from '../config/config.ts';
import type { EpochMs, MonotonicMs } from '../times.ts';
import { sha256Hex } from '../cryptography.ts';

/** How long a session lasts, in milliseconds: a working day. */
const sessionLength = 8 * 3_600_000;

/** How long a session lasts without a request, in milliseconds. */
const idleTime = 30 * 60_000;

/** Maximum number of sessions of one token. Beyond it the oldest session of that token ends. */
const maxOfToken = 100;

/**
 * What a request of a session carries. Each half alone is worthless: browsers send cookies to every port of a host, so that other programs
 * on the host receive them, and a script that is injected into the page can read what the page can.
 */
export interface SessionHalves {
  /** In the cookie, the same for all windows of a browser. */
  readonly browser: string;
  /** In a header, known only to the window that signed in. */
  readonly key: string;
}

interface Session {
  /** The hash of the browser's half. */
  browserHash: string;
  /** The hash of the session's token. The session ends with the token and has its role. */
  readonly tokenHash: string;
  readonly expiresAt: EpochMs;
  /** When it began and when its last request came. Monotonic, so that setting the wall clock back prolongs no session. */
  readonly begunAt: MonotonicMs;
  usedAt: MonotonicMs;
}

/** A session that is accepted. */
export interface OpenSession {
  readonly token: OperatorsToken;
  readonly expiresAt: EpochMs;
}

/** The console's sessions. They are in memory, so a restart ends them. */
export class Sessions {
  readonly #clock: () => EpochMs;
  /** By the hash of the key, so that a memory dump does not reveal valid keys. In order of creation. */
  readonly #sessions = new Map<string, Session>();
  /** The sessions of accepted requests: while a request waits, a sign-in in another window may replace the browser's half. */
  readonly #accepted = new WeakMap<object, Session>();

  constructor(clock: () => EpochMs) {
    this.#clock = clock;
  }

  /**
   * Begins a session; returns the halves that open it.
   *
   * @param browser the browser's half, from the request's cookie. The browser's other sessions get the new half, because the cookie is
   *   replaced
   */
  begin(token: OperatorsToken, browser: string): SessionHalves & { readonly expiresAt: EpochMs } {
    const now = performance.now();
    this.#endIf((session) => isOver(session, now));
    const own = [...this.#sessions].filter(([, { tokenHash }]) => tokenHash === token.hash);
    if (own.length >= maxOfToken) this.#sessions.delete(own[0]?.[0] ?? '');
    const halves = { browser: secret(), key: secret() };
    const expiresAt = this.#clock() + sessionLength;
    const replaced = sha256Hex(browser);
    const browserHash = sha256Hex(halves.browser);
    for (const session of this.#sessions.values()) {
      if (session.browserHash === replaced) session.browserHash = browserHash;
    }
    this.#sessions.set(sha256Hex(halves.key), {
      browserHash,
      tokenHash: token.hash,
      expiresAt,
      begunAt: now,
      usedAt: now,
    });
    return { ...halves, expiresAt };
  }

  /**
   * The session of a request; undefined if there is none. Called again for the same request, it tells whether the session still goes on.
   *
   * @param tokens the tokens of the running configuration
   */
  find(request: object, { browser, key }: SessionHalves, tokens: readonly OperatorsToken[]): OpenSession | undefined {
    const session = this.#sessions.get(sha256Hex(key));
    const now = performance.now();
    if (session === undefined || isOver(session, now)) return undefined;
    if (session.browserHash !== sha256Hex(browser) && this.#accepted.get(request) !== session) return undefined;
    this.#accepted.set(request, session);
    const token = tokens.find(({ hash }) => hash === session.tokenHash);
    if (token !== undefined) session.usedAt = now;
    return token && { token, expiresAt: session.expiresAt };
  }

  /** Ends all sessions of a browser. */
  end(browser: string): void {
    const ended = sha256Hex(browser);
    this.#endIf(({ browserHash }) => browserHash === ended);
  }

  /** Ends the sessions of all other tokens. They do not begin again if their token returns. */
  keepOnly(tokens: readonly OperatorsToken[]): void {
    const kept = new Set(tokens.map(({ hash }) => hash));
    this.#endIf(({ tokenHash }) => !kept.has(tokenHash));
  }

  #endIf(ends: (session: Session) => boolean): void {
    for (const [hash, session] of this.#sessions) if (ends(session)) this.#sessions.delete(hash);
  }
}

function isOver({ begunAt, usedAt }: Session, now: MonotonicMs): boolean {
  return now - begunAt >= sessionLength || now - usedAt >= idleTime;
}

function secret(): string {
  return randomBytes(32).toString('base64url');
}

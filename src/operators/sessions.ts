import { randomBytes } from 'node:crypto';
import type { OperatorsToken } from '../config/config.ts';
import type { EpochMs, MonotonicMs } from '../times.ts';
import { sha256Hex } from '../cryptography.ts';

/** Maximum length of a session, in milliseconds: a working day. */
const sessionLength = 8 * 3_600_000;

/** How long a session may be idle before it ends, in milliseconds. */
const idleTime = 30 * 60_000;

/** Maximum number of sessions per token. If one more is begun with a token, the token's oldest session ends. */
const maxOfToken = 100;

/**
 * The two halves of a session's secret. A request must carry both. Neither half is enough by itself, because each can leak: browsers send
 * cookies to every port of a host, so other programs on that host receive the cookie, and a script injected into the page can read whatever
 * the page can read.
 */
export interface SessionHalves {
  /** Sent in the cookie. All windows of a browser share it. */
  readonly browser: string;
  /** Sent in a header. Only the window that signed in knows it. */
  readonly key: string;
}

interface Session {
  /** The hash of the browser's half. */
  browserHash: string;
  /** The hash of the token that began the session. The session has the role of that token and ends with it. */
  readonly tokenHash: string;
  readonly expiresAt: EpochMs;
  /**
   * When the session began and when its last request arrived. Both times are monotonic, so that setting the wall clock back does not
   * prolong the session.
   */
  readonly begunAt: MonotonicMs;
  usedAt: MonotonicMs;
}

/** A valid session. */
export interface OpenSession {
  readonly token: OperatorsToken;
  readonly expiresAt: EpochMs;
}

/** The console's sessions. They are kept in memory, so a restart ends them. */
export class Sessions {
  readonly #clock: () => EpochMs;
  /** Sessions by the hash of their key, in order of creation. Only hashes are kept, so that a memory dump does not reveal valid keys. */
  readonly #sessions = new Map<string, Session>();
  /**
   * The session of each request that was accepted. `find` accepts such a request again, even if a sign-in in another window has replaced
   * the browser's half of its session while the request waited.
   */
  readonly #accepted = new WeakMap<object, Session>();

  constructor(clock: () => EpochMs) {
    this.#clock = clock;
  }

  /**
   * Begins a session and returns its two halves.
   *
   * @param browser the browser's half, from the request's cookie. The browser's other sessions get the new half, because the response
   *   replaces the cookie
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
   * Finds the session of a request; undefined if there is none. A second call for the same request tells whether the session is still
   * valid.
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

  /** Ends the sessions of all tokens except these. Adding a token to the configuration again does not restore its sessions. */
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

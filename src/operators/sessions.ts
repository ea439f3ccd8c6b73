import { randomBytes } from 'node:crypto';
import { sha256Hex } from '../accounts/api-key.ts';
import type { OperatorsToken } from '../config/config.ts';

/** How long a session lasts, in milliseconds: a working day. */
const sessionLength = 8 * 3_600_000;

/** The most sessions of one token. Beyond it the oldest session of that token ends. */
const maxOfToken = 100;

interface Session {
  /** The hash of the session's token. The session ends with the token and has its role. */
  readonly tokenHash: string;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

/** A session that is accepted. */
export interface OpenSession {
  readonly token: OperatorsToken;
  readonly expiresAt: number;
}

/** The console's sessions. They are in memory, so a restart ends them. */
export class Sessions {
  readonly #clock: () => number;
  /** By the hash of the id, so that a memory dump does not reveal valid ids. In order of creation. */
  readonly #sessions = new Map<string, Session>();

  /** @param clock epoch milliseconds */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** Begins a session; returns the id that opens it. */
  begin(token: OperatorsToken): { readonly id: string; readonly expiresAt: number } {
    const now = this.#clock();
    for (const [hash, { expiresAt }] of this.#sessions) {
      if (expiresAt > now) break;
      this.#sessions.delete(hash);
    }
    const own = [...this.#sessions].filter(([, { tokenHash }]) => tokenHash === token.hash);
    if (own.length >= maxOfToken) this.#sessions.delete(own[0]?.[0] ?? '');
    const id = randomBytes(32).toString('base64url');
    const expiresAt = now + sessionLength;
    this.#sessions.set(sha256Hex(id), { tokenHash: token.hash, expiresAt });
    return { id, expiresAt };
  }

  /**
   * The session of an id; undefined if there is none.
   *
   * @param tokens the tokens of the running configuration
   */
  find(id: string, tokens: readonly OperatorsToken[]): OpenSession | undefined {
    const session = this.#sessions.get(sha256Hex(id));
    if (session === undefined || session.expiresAt <= this.#clock()) return undefined;
    const token = tokens.find(({ hash }) => hash === session.tokenHash);
    return token && { token, expiresAt: session.expiresAt };
  }

  end(id: string): void {
    this.#sessions.delete(sha256Hex(id));
  }
}

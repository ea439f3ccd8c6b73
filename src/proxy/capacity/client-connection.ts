import type { EnvironmentName, PresentedKey } from '../../accounts/api-key.ts';
import type { ClientDetail } from '../../config/config.ts';
import type { ConnectionHandler } from '../../http1/connection-handler.ts';
import { maxInRead, maxSmallPieces, type SuspendReason } from '../../http1/read-pace.ts';
import type { ServerConnection } from '../../http1/connection.ts';
import type { ServerExchange } from '../../http1/exchange.ts';
import { endTls } from '../../http1/tls-work.ts';
import type { LinkedList } from '../../linked-list.ts';
import type { Closings } from '../../telemetry/closings.ts';
import type { ClosingReason } from '../../telemetry/metrics.ts';
import type { HeldUp } from './queues.ts';
import { ReadTurn } from './read-turn.ts';
import type { Budgets, Claim, Evictor } from './budgets.ts';
import type { AnonymousBytes, Evictable } from './evictable.ts';
import type { Eviction } from './eviction.ts';
import { indexes, type LimitIndex, type LimitName, type Part } from './parts.ts';
import { Reservation, type Exceeded } from './reservation.ts';
import type { MonotonicMs } from '../../times.ts';

/** Serves the requests on all connections. */
export interface RequestServer {
  serve(exchange: ServerExchange, client: ClientConnection): void;
  onError(error: unknown): void;
}

/** The context that all connections of a listener share. */
export interface ConnectionContext {
  readonly budgets: Budgets;
  readonly closings: Closings;
  readonly server: RequestServer;
  readonly eviction: Eviction;
}

/** A request in progress. */
interface Request {
  readonly http: ServerExchange;
  /** Ends the request, because other requests need the part of a limit that it has taken. */
  giveWay(limit: LimitName): void;
}

/** A client's connection: the claim it is charged to, and what its requests share. */
export class ClientConnection implements ConnectionHandler, Evictable, Evictor {
  previous: Evictable | undefined;
  next: Evictable | undefined;
  readonly http: ServerConnection;
  readonly peer: string;
  /** The last `Authorization` with a well-formed key, and the key. Most clients repeat the header, and hashing a key takes microseconds. */
  lastKey: { readonly authorization: string; readonly key: PresentedKey } | undefined;
  /** The peer's address as logged, cached because formatting an address costs more than a microsecond. */
  loggedPeer: { readonly detail: ClientDetail; readonly address: string | undefined } | undefined;
  /** How many bytes it holds besides its request. */
  heldBytes = 0;
  since = 0;
  latestAt = 0;
  maxHeld = Infinity;
  /** Why the sidecar has closed the connection; undefined if it has not. */
  closedFor: ClosingReason | undefined;
  list: LinkedList<Evictable> | undefined;
  /** The request in progress, and what it has taken of the limits. */
  #request: Request | undefined;
  #reservation: Reservation | undefined;
  /** The claims that the connection and the bytes it holds are charged to. They differ only until it closes for lack of room. */
  #claim: Claim;
  #heldClaim: Claim;
  #counted = false;
  #left = false;
  isLookedUp = false;
  isSuspect = false;
  readonly turn = new ReadTurn();
  /** Suspends reading from the client of a WebSocket; undefined before the switch. */
  suspendCoupled: (() => void) | undefined;
  readonly #all: ConnectionContext;

  /** @param all the context of all connections, in which this connection is already counted */
  constructor(http: ServerConnection, peer: string, all: ConnectionContext) {
    this.http = http;
    this.peer = peer;
    this.#all = all;
    this.#claim = all.budgets.anonymous.none;
    this.#heldClaim = this.#claim;
    this.#claim.turns.readers.add(this);
    this.#moveTo(all.eviction.anonymous);
  }

  get claim(): Claim {
    return this.#claim;
  }

  get isIdle(): boolean {
    return this.#request === undefined;
  }

  get holdsSlot(): boolean {
    return this.#reservation?.holdsSlot === true;
  }

  taken(limit: LimitIndex): number {
    if (limit === indexes.connections) return this.#left ? 0 : 1;
    const taken = this.#reservation?.taken(limit, this.#claim) ?? 0;
    return limit === indexes.buffered && this.#heldClaim === this.#claim ? taken + this.heldBytes : taken;
  }

  yields(part: Part, from: AnonymousBytes): number {
    const isYielded = this.#reservation?.givesWay === true && (from !== 'unread' || this.#isUnread);
    const ofRequest = isYielded ? (this.#reservation?.bytesIn(part) ?? 0) : 0;
    const ofHead = from === 'all' && !this.holdsSlot && this.#heldClaim.parts.includes(part) ? this.heldBytes : 0;
    return ofRequest + ofHead;
  }

  get isWhole(): boolean {
    return this.heldBytes === 0 && this.#request?.http.bodyComplete === true && !this.#isUnread;
  }

  /** Whether the response has begun, so that the request's bytes are held until the client reads them. */
  get #isUnread(): boolean {
    return this.#request?.http.status !== undefined;
  }

  get arrived(): number {
    const http = this.#request?.http;
    return http?.bodyComplete === false ? http.received : Infinity;
  }

  makeAnonymousRoom(amount: number, short: readonly Part[]): boolean {
    const gives = this.#reservation?.givesWay === true;
    const from = this.#isUnread ? 'requests' : gives ? 'unread' : 'all';
    return this.#claim.turns.time(this, () => this.#all.eviction.makeAnonymousRoom(this, amount, short, from));
  }

  makePublicRoom(amount: number, limit: LimitIndex, claim: Claim): boolean {
    return this.#claim.turns.time(this, () => this.#all.eviction.makePublicRoom(this, amount, limit, claim));
  }

  onRequest(exchange: ServerExchange): void {
    this.turn.endNew();
    this.#all.server.serve(exchange, this);
  }

  onSuspend(resume: () => void, reason: SuspendReason): void {
    this.turn.await(this.#claim.turns, reason, resume);
    if (reason === 'smallPieces') this.#claim.turns.holdUpOthers(this);
  }

  holdUp(broken: HeldUp | undefined): void {
    if (this.turn.protects(broken)) return;
    if (this.suspendCoupled === undefined) this.http.suspend();
    else this.suspendCoupled();
  }

  onError(error: unknown): void {
    this.endsFor('error');
    this.#all.server.onError(error);
  }

  onSmallPiece(nth: number): void {
    if (nth < maxSmallPieces) this.#claim.turns.countPiece(this, nth);
    // If a client without a key were only suspended, each new connection could bring another such flood.
    if (nth !== maxInRead || this.isLookedUp || this.#claim.tier !== 'anonymous') return;
    this.endsFor('limit');
    endTls(this.http.socket);
  }

  onExcess(): void {
    this.endsFor('limit');
  }

  onCrowd(): void {
    this.#claim.turns.holdUpOthers(this);
  }

  /** Begins a request, which is at first charged as one without a key. */
  begin(request: Request, environment: EnvironmentName | 'none', startedAt: MonotonicMs): Reservation {
    const { budgets, eviction } = this.#all;
    // The connection must not be evicted for now, because this request's key may be secret, whatever the previous key was.
    if (this.list === eviction.publicKeys) this.#moveTo(undefined);
    this.#request = request;
    this.latestAt = startedAt;
    this.#reservation = new Reservation(budgets, budgets.anonymous[environment], this);
    // Keep `since` while bytes are held, because a client may always send the end of one head together with the start of the next.
    if (this.heldBytes === 0) this.since = startedAt;
    return this.#reservation;
  }

  /** Called when the request has ended. From now on, the connection counts as idle. */
  idle(): void {
    this.#request = undefined;
    this.#reservation = undefined;
    this.isLookedUp = this.isSuspect = false;
    const { anonymous, publicKeys } = this.#all.eviction;
    const { tier } = this.#claim;
    if (tier === 'public') this.latestAt = performance.now();
    this.#moveTo(tier === 'anonymous' ? anonymous : tier === 'public' ? publicKeys : undefined);
  }

  /** Sets whether the bytes of the request may be evicted from now on, because they are held for as long as the client likes. */
  letGiveWay(gives: boolean): void {
    if (this.#reservation === undefined) return;
    this.#reservation.givesWay = gives;
    if (this.#claim.tier === 'anonymous' || this.#reservation.claim.tier !== 'anonymous') return;
    this.#moveTo(gives ? this.#all.eviction.keyless : undefined);
  }

  #moveTo(list: LinkedList<Evictable> | undefined): void {
    this.list?.remove(this);
    // After an eviction, the socket closes in a later turn. Until then, the request may still get a response, and be made evictable.
    this.list = this.#left ? undefined : list;
    this.list?.add(this);
  }

  /**
   * Charges the connection, and the bytes it holds, to the account of its latest request. With a valid key, the connection is no longer
   * closed to make room for clients without one. With a public key, which anyone can read, the connection can still be evicted for other
   * public keys if it is idle or its body arrives slowly.
   *
   * @returns the limit that the account would exceed, if there is one
   */
  identify(claim: Claim): Exceeded | undefined {
    if (this.#left) return undefined;
    const { budgets, eviction } = this.#all;
    const isPublic = claim.tier === 'public';
    const list = isPublic ? eviction.publicKeys : undefined;
    if (claim === this.#claim) {
      this.#moveTo(list);
      return undefined;
    }
    const shortage = budgets.connections.move(1, this.#claim, claim, isPublic ? this : undefined);
    // An anonymous connection stays evictable, because its client may never read the refusal.
    if (shortage !== undefined) return { limit: 'connections', shortage };
    this.#claim.turns.readers.delete(this);
    this.#claim = claim;
    claim.turns.readers.add(this);
    const from = this.#heldClaim;
    const short = this.heldBytes > 0 ? budgets.buffered.move(this.heldBytes, from, claim, this) : undefined;
    // If there is no room, the bytes stay charged to clients without a key. The connection stays evictable, because its client may never
    // read the refusal.
    this.#moveTo(short === undefined ? list : eviction.keyless);
    if (short !== undefined) return { limit: 'buffered', shortage: short };
    this.#heldClaim = claim;
    return undefined;
  }

  /**
   * Charges bytes that the connection holds in addition to its request: an incomplete head, or pipelined requests.
   *
   * @param change how many more bytes; negative if fewer
   * @returns false if the bytes may not be held; the connection must then be closed
   */
  onHeld(change: number): boolean {
    // The bytes were given back when the connection closed.
    if (this.#left) return true;
    if (this.heldBytes === 0 && this.#reservation === undefined) this.since = performance.now();
    if (change <= 0) {
      this.#all.budgets.buffered.give(-change, this.#heldClaim);
    } else if (this.heldBytes + change > this.maxHeld) {
      this.endsFor('early_bytes');
      return false;
    } else if (this.#all.budgets.buffered.take(change, this.#heldClaim, this) !== undefined) {
      this.endsFor(this.#reservation === undefined ? 'limit' : 'pipeline');
      return false;
    }
    this.heldBytes += change;
    return true;
  }

  /** Counts the connection as closed by the sidecar, either at once or with a response that says so. */
  count(reason: ClosingReason): void {
    if (this.#counted) return;
    this.#counted = true;
    this.#all.closings.count(reason);
  }

  /** Records why the sidecar, not the client, is about to end the connection. */
  endsFor(reason: ClosingReason): void {
    this.closedFor ??= reason;
    this.count(reason);
  }

  evict(limit: LimitIndex = indexes.connections): void {
    if (limit !== indexes.connections && this.#request !== undefined)
      return this.#request.giveWay(limit === indexes.inFlight ? 'inFlight' : 'buffered');
    this.onClose();
    this.endsFor('limit');
    this.#reservation?.end();
    this.http.destroy();
  }

  /** Called when the connection has closed or is about to close. */
  onClose(): void {
    if (this.#left) return;
    this.#left = true;
    this.turn.withdraw();
    this.#claim.turns.readers.delete(this);
    this.#moveTo(undefined);
    this.#all.budgets.connections.give(1, this.#claim);
    this.#all.budgets.buffered.give(this.heldBytes, this.#heldClaim);
    this.heldBytes = 0;
  }
}

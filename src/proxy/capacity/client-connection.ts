import type { EnvironmentName, PresentedKey } from '../../accounts/api-key.ts';
import type { ClientDetail } from '../../config/config.ts';
import type { ConnectionHandler } from '../../http1/connection-handler.ts';
import type { SuspendReason } from '../../http1/read-pace.ts';
import type { ServerConnection } from '../../http1/connection.ts';
import type { ServerExchange } from '../../http1/exchange.ts';
import { endTls } from '../../http1/tls-work.ts';
import type { LinkedList } from '../../linked-list.ts';
import type { Closings } from '../../telemetry/closings.ts';
import type { ClosingReason } from '../../telemetry/metrics.ts';
import type { HeldUp } from './queues.ts';
import { ReadTurn } from './read-turn.ts';
import type { Budgets, Claim, Evictor } from './budgets.ts';
import type { Evictable, Eviction, AnonymousBytes } from './eviction.ts';
import { indexes, type LimitIndex, type LimitName, type Part } from './parts.ts';
import { Reservation, type Exceeded } from './reservation.ts';
import type { MonotonicMs } from '../../times.ts';

/** Serves the requests of all connections. */
export interface RequestServer {
  serve(exchange: ServerExchange, client: ClientConnection): void;
  onError(error: unknown): void;
}

/** What the connections of a listener have in common. */
export interface ConnectionContext {
  readonly budgets: Budgets;
  readonly closings: Closings;
  readonly server: RequestServer;
  readonly eviction: Eviction;
}

/** A request in progress. */
interface Request {
  readonly http: ServerExchange;
  /** Ends the request, because others need what it has taken of a limit. */
  giveWay(limit: LimitName): void;
}

/** A client's connection: whom it is charged to, and what its requests have in common. */
export class ClientConnection implements ConnectionHandler, Evictable, Evictor {
  previous: Evictable | undefined;
  next: Evictable | undefined;

  readonly http: ServerConnection;
  readonly peer: string;
  /** The last `Authorization` with a well-formed key, and the key: most clients send the same one in each request, and hashing it costs microseconds. */
  lastKey: { readonly authorization: string; readonly key: PresentedKey } | undefined;
  /** The peer for the log, because formatting an address costs more than a microsecond. */
  loggedPeer: { readonly detail: ClientDetail; readonly address: string | undefined } | undefined;
  /** How many bytes it holds besides its request; since when, on `performance.now()`'s scale; and how many it may hold. */
  heldBytes = 0;
  since = 0;
  latestAt = 0;
  maxHeld = Infinity;
  /** Why the sidecar has closed the connection. */
  closedFor: ClosingReason | undefined;
  /** The list that it is in, of connections that may be closed for others. */
  #list: LinkedList<Evictable> | undefined;
  /** The request in progress, and what it has taken. */
  #request: Request | undefined;
  #reservation: Reservation | undefined;
  /** Whom it is charged to, and whom what it holds. They differ if the account may not have that: then it closes. */
  #claim: Claim;
  #heldClaim: Claim;
  #counted = false;
  #left = false;
  isLookedUp = false;
  readonly turn = new ReadTurn();
  /** Makes the client of a WebSocket rest; undefined before the switch. */
  suspendCoupled: (() => void) | undefined;
  readonly #all: ConnectionContext;

  /** @param all the connections that it shares limits with; it is already counted there */
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
    if (limit === indexes.connections) return 1;
    const taken = this.#reservation?.taken(limit, this.#claim) ?? 0;
    return limit === indexes.buffered && this.#heldClaim === this.#claim ? taken + this.heldBytes : taken;
  }

  yields(part: Part, from: AnonymousBytes): number {
    const reservation = this.#reservation;
    const ofRequest =
      reservation?.givesWay === true && (from !== 'unread' || this.#isUnread) ? reservation.bytesIn(part) : 0;
    const ofHead = from === 'all' && !this.holdsSlot && this.#heldClaim.parts.includes(part) ? this.heldBytes : 0;
    return ofRequest + ofHead;
  }

  /** Whether the response of its request has begun: what it holds is waiting for its client. */
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
    return this.#all.eviction.makeAnonymousRoom(this, amount, short, from);
  }

  makePublicRoom(amount: number, limit: LimitIndex, claim: Claim): boolean {
    return this.#all.eviction.makePublicRoom(this, amount, limit, claim);
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
    this.#all.server.onError(error);
  }

  /** Closes a client without a key, because each new connection would bring another such read. */
  onFlood(): void {
    if (this.isLookedUp || this.#claim.tier !== 'anonymous') return;
    this.endsFor('limit');
    endTls(this.http.socket);
  }

  onExcess(): void {
    this.endsFor('limit');
    this.onCrowd();
  }

  onCrowd(): void {
    this.#claim.turns.holdUpOthers(this);
  }

  /** A request begins, charged as one without a key at first. */
  begin(request: Request, environment: EnvironmentName | 'none', startedAt: MonotonicMs): Reservation {
    const { budgets, eviction } = this.#all;
    // The request's key may be secret, whatever the previous request's key was.
    if (this.#list === eviction.publicKeys) this.#moveTo(undefined);
    this.#request = request;
    this.latestAt = startedAt;
    this.#reservation = new Reservation(budgets, budgets.anonymous[environment], this);
    // The rest of a head and the beginning of the next one may arrive together, again and again.
    if (this.heldBytes === 0) this.since = startedAt;
    return this.#reservation;
  }

  /** No request is in progress: from now on, the connection counts as idle. */
  idle(): void {
    this.#request = undefined;
    this.#reservation = undefined;
    if (this.#left) return;
    const { anonymous, publicKeys } = this.#all.eviction;
    const { tier } = this.#claim;
    if (tier === 'public') this.latestAt = performance.now();
    this.#moveTo(tier === 'anonymous' ? anonymous : tier === 'public' ? publicKeys : undefined);
  }

  /** What its request holds may give way to others from now on, or no more: it is held as long as the client likes. */
  letGiveWay(gives: boolean): void {
    if (this.#reservation === undefined) return;
    this.#reservation.givesWay = gives;
    if (this.#claim.tier === 'anonymous' || this.#reservation.claim.tier !== 'anonymous') return;
    this.#moveTo(gives ? this.#all.eviction.keyless : undefined);
  }

  #moveTo(list: LinkedList<Evictable> | undefined): void {
    this.#list?.remove(this);
    this.#list = list;
    list?.add(this);
  }

  /**
   * Charges the connection, and what it holds, to the account of its latest request. With a valid key, it is no longer closed for strangers. With
   * a public key, which everybody can read, it gives way to others with such keys if it is idle or its body arrives slowly.
   *
   * @returns what the account may not have
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
    // Its refusal may never be read: a stranger's connection must stay one that can be closed.
    if (shortage !== undefined) return { limit: 'connections', shortage };
    this.#claim.turns.readers.delete(this);
    this.#claim = claim;
    claim.turns.readers.add(this);
    const from = this.#heldClaim;
    const short = this.heldBytes > 0 ? budgets.buffered.move(this.heldBytes, from, claim, this) : undefined;
    // Otherwise, what it holds is still charged to strangers, and its refusal may never be read.
    this.#moveTo(short === undefined ? list : eviction.keyless);
    if (short !== undefined) return { limit: 'buffered', shortage: short };
    this.#heldClaim = claim;
    return undefined;
  }

  /**
   * Charges bytes that the connection holds besides its request: an incomplete head, or pipelined requests.
   *
   * @param change how many bytes more or, if negative, fewer
   * @returns false if they may not be held: then the connection must be closed
   */
  onHeld(change: number): boolean {
    // What it held was given back when it left.
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

  /** Counts that the sidecar closes the connection, at once or with a response that says so. */
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
    const name = limit === indexes.inFlight ? 'inFlight' : 'buffered';
    if (limit !== indexes.connections && this.#request !== undefined) return this.#request.giveWay(name);
    this.onClose();
    this.endsFor('limit');
    this.#reservation?.end();
    this.http.destroy();
  }

  /** The connection has closed, or is about to. */
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

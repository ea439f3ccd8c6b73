import type { ClientDetail } from '../config/config.ts';
import { LinkedList, type Linked } from '../linked-list.ts';
import type { ServerConnection } from '../http1/connection.ts';
import type { PresentedKey } from './admit/api-key.ts';
import type { Client } from './admit/admit.ts';
import { loggedAddress } from './admit/client-address.ts';
import type { GatewaySnapshot } from './admit/snapshot.ts';
import type { Closings } from '../telemetry/closings.ts';
import type { ClosingReason } from '../telemetry/metrics.ts';
import { anonymous, type Budget, type Budgets, type Claim, type Shortage } from './capacity/budgets.ts';

interface LoggedAddress {
  readonly detail: ClientDetail;
  readonly address: string | undefined;
}

/** A client's connection: what it is billed to, and what its requests have in common. */
export class ClientConnection implements Client, Linked<ClientConnection> {
  /** Its neighbours among the connections that may be evicted. */
  previous: ClientConnection | undefined;
  next: ClientConnection | undefined;

  readonly http: ServerConnection;
  /** The address of the peer. */
  readonly peer: string;
  /** @see Client */
  lastKey: { readonly authorization: string; readonly key: PresentedKey | undefined } | undefined;
  /** Its peer for the log, because formatting an address costs more than a microsecond. */
  #logged: LoggedAddress | undefined;
  /** Bytes that it holds besides its request, and how many it may. */
  heldBytes = 0;
  maxHeld = Infinity;
  /** The request in progress. */
  current: { readonly reservation: { readonly holdsSlot: boolean } } | undefined;
  #claim: Claim = anonymous.none;
  /** Why the sidecar has closed it. */
  closedFor: ClosingReason | undefined;
  #counted = false;
  #heldClaim: Claim = anonymous.none;
  #left = false;
  readonly #budget: Budget;
  readonly #buffered: Budget;
  readonly #closings: Closings;
  readonly #evictable: LinkedList<ClientConnection>;

  constructor(
    http: ServerConnection,
    peer: string,
    budgets: Budgets,
    closings: Closings,
    evictable: LinkedList<ClientConnection>,
  ) {
    this.http = http;
    this.peer = peer;
    this.#budget = budgets.connections;
    this.#buffered = budgets.buffered;
    this.#closings = closings;
    this.#evictable = evictable;
    evictable.add(this);
  }

  /**
   * Bills the connection to the account of its latest request. One that has carried a valid key is never evicted.
   *
   * @returns why the account may not have it
   */
  identify(claim: Claim): Shortage | undefined {
    this.#evictable.remove(this);
    if (this.#left || claim === this.#claim) return undefined;
    const shortage = this.#budget.move(1, this.#claim, claim);
    if (shortage === undefined) this.#claim = claim;
    return shortage;
  }

  loggedAddress(forwardedFor: string | undefined, snapshot: GatewaySnapshot): string | undefined {
    // Of a proxy, each request may have another client.
    if (snapshot.trusts(this.peer)) return loggedAddress(this.peer, forwardedFor, snapshot);
    const { clientDetail: detail } = snapshot;
    if (this.#logged?.detail !== detail) {
      this.#logged = { detail, address: loggedAddress(this.peer, undefined, snapshot) };
    }
    return this.#logged.address;
  }

  /** Counts that the sidecar closes it, by this call or by a response that says so. */
  count(reason: ClosingReason): void {
    if (this.#counted) return;
    this.#counted = true;
    this.#closings.count(reason);
  }

  /** Records why its end, which follows, is not the client's. */
  endsFor(reason: ClosingReason): void {
    this.closedFor ??= reason;
    this.count(reason);
  }

  /**
   * Bills bytes that the connection holds besides its request: an incomplete head, or pipelined requests.
   *
   * @param change bytes more, or fewer
   * @returns why they may not be held
   */
  hold(change: number): Shortage | undefined {
    // What it held was given back when it left.
    if (this.#left) return undefined;
    if (this.heldBytes === 0) this.#heldClaim = this.#claim;
    const shortage = change > 0 ? this.#buffered.take(change, this.#heldClaim) : undefined;
    if (shortage !== undefined) return shortage;
    if (change < 0) this.#buffered.give(-change, this.#heldClaim);
    this.heldBytes += change;
    return undefined;
  }

  /** No request is in progress: from now on it counts as idle. */
  idle(): void {
    this.current = undefined;
    if (this.#left || this.#claim !== anonymous.none) return;
    this.#evictable.remove(this);
    this.#evictable.add(this);
  }

  /** It has closed, or is about to. */
  leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#evictable.remove(this);
    this.#budget.give(1, this.#claim);
    this.#buffered.give(this.heldBytes, this.#heldClaim);
    this.heldBytes = 0;
  }
}

/** How many connections may be closed for the bytes of one. */
const maxEvictions = 8;

/** The open connections of clients, up to a limit. */
export class ClientConnections {
  readonly #budgets: Budgets;
  readonly #closings: Closings;
  /** The connections that never carried a valid key, longest idle first. */
  readonly #evictable = new LinkedList<ClientConnection>();

  constructor(budgets: Budgets, closings: Closings) {
    this.#budgets = budgets;
    this.#closings = closings;
  }

  /**
   * Admits a new connection. Beyond the limit, the connection that has been idle longest without ever carrying a valid key is
   * closed for it.
   *
   * @returns undefined if there is none: then the new one must be closed
   */
  open(http: ServerConnection, peer: string): ClientConnection | undefined {
    const { connections } = this.#budgets;
    if (connections.take(1, anonymous.none) !== undefined) {
      if (!this.#evictIdle() || connections.take(1, anonymous.none) !== undefined) {
        this.#closings.count('limit');
        return undefined;
      }
    }
    return new ClientConnection(http, peer, this.#budgets, this.#closings, this.#evictable);
  }

  /**
   * As `hold` of the connection. Others that never carried a valid key give way, those that hold most first.
   *
   * @returns false if the bytes may not be held
   */
  hold(connection: ClientConnection, change: number): boolean {
    if (connection.heldBytes + change > connection.maxHeld) {
      connection.endsFor('early_bytes');
      return false;
    }
    for (let evictions = 0; evictions <= maxEvictions; evictions += 1) {
      const shortage = connection.hold(change);
      if (shortage === undefined) return true;
      // They use no share of public keys, of the test environment or of an account.
      if (shortage !== 'total' && shortage !== 'anonymous') break;
      if (!this.#evictLargest(connection)) break;
    }
    connection.endsFor(connection.current === undefined ? 'limit' : 'pipeline');
    return false;
  }

  /** Closes the longest idle connection. Few of them have a place in flight, so that this looks at few. */
  #evictIdle(): boolean {
    for (const connection of this.#evictable) {
      if (connection.current?.reservation.holdsSlot === true) continue;
      evict(connection);
      return true;
    }
    return false;
  }

  /** Closes the connection that holds most bytes. */
  #evictLargest(exempt: ClientConnection): boolean {
    let largest: ClientConnection | undefined;
    for (const connection of this.#evictable) {
      if (connection === exempt || connection.current?.reservation.holdsSlot === true) continue;
      if (connection.heldBytes > (largest?.heldBytes ?? 0)) largest = connection;
    }
    if (largest !== undefined) evict(largest);
    return largest !== undefined;
  }
}

function evict(connection: ClientConnection): void {
  connection.leave();
  connection.endsFor('limit');
  connection.http.destroy('limit');
}

import type { Budgets, Claim, Evictor } from './budgets.ts';
import { besideHeads, indexes, type LimitIndex, type LimitName, type Part, type Shortage } from './parts.ts';
import type { Waiter, WaitQueue } from '../../wait-queue.ts';

/** An unread response of up to this many bytes is charged only if it is still unread in a later turn, and only if there is room. */
const shortResponse = 4_096;

/** How many bytes of memory a waiting request takes in addition to its head (measured). */
const waitingMemory = 3_000;

/** How many bytes a request with this head holds while it waits. */
export function waitingBytes(head: { readonly size: number } | undefined): number {
  return (head?.size ?? 0) + waitingMemory;
}

/** The limit that a request has exceeded, and why. */
export interface Exceeded {
  readonly limit: LimitName;
  readonly shortage: Shortage;
}

/** What one request has taken from the budgets, and the queue in which the request waits. */
export class Reservation implements Waiter {
  readonly #budgets: Budgets;
  readonly #evictor: Evictor | undefined;
  /** The claim that the request is charged to. Only `chargeTo` changes it. */
  claim: Claim;
  #slot: Claim | undefined;
  #bytes = 0;
  #bytesClaim: Claim;
  #leaveQueue: (() => void) | undefined;
  /** While the request waits, `#waitingBytes` bytes are also charged to this claim. */
  #waiting: Claim | undefined;
  #waitingBytes = 0;
  /**
   * Whether the request's bytes may be evicted. The client decides how long these bytes are held, because they are a body for a test
   * endpoint, a body whose key is being looked up, or a response that the client does not read. Eviction closes the connection if it has
   * never carried a valid key, unless the request is complete and can be refused. A body for a test endpoint takes room only from unread
   * responses.
   */
  givesWay = false;
  /**
   * Whether the request is over. From then on, nothing may be taken, even while the core's response is still being read, because it would
   * never be given back.
   */
  #isOver = false;
  /** The limit that the request has exceeded, and why; undefined if there is none. */
  exceeded: Exceeded | undefined;

  constructor(budgets: Budgets, claim: Claim, evictor?: Evictor) {
    this.#budgets = budgets;
    this.claim = claim;
    this.#bytesClaim = claim;
    this.#evictor = evictor;
  }

  get holdsSlot(): boolean {
    return this.#slot !== undefined;
  }

  /** How much of a limit the request has taken and charged to this claim. */
  taken(limit: LimitIndex, claim: Claim): number {
    if (limit === indexes.inFlight) return this.#slot === claim ? 1 : 0;
    return limit === indexes.buffered && this.#bytesClaim === claim ? this.#bytes : 0;
  }

  /**
   * Charges the request, and the bytes that it already holds, to an account. A body that has waited for a look-up must not stay charged to
   * requests without a key.
   *
   * @returns the limit that the account would exceed, if there is one
   */
  chargeTo(claim: Claim): Exceeded | undefined {
    this.claim = claim;
    if (this.#bytes === 0) return undefined;
    const shortage = this.#budgets.buffered.move(
      this.#bytes,
      this.#bytesClaim,
      claim,
      claim.tier === 'public' ? this.#evictor : undefined,
    );
    if (shortage !== undefined) return { limit: 'buffered', shortage };
    this.#bytesClaim = claim;
    return undefined;
  }

  /** How many of the request's bytes are charged to a part. */
  bytesIn(part: Part): number {
    const waiting = this.#waiting?.parts.includes(part) === true ? this.#waitingBytes : 0;
    return this.#bytesClaim.parts.includes(part) ? this.#bytes : waiting;
  }

  /** Whether the request holds a slot that is charged to its key's account. */
  get holdsOwnSlot(): boolean {
    return this.#slot !== undefined && this.#slot.tier !== 'anonymous';
  }

  /** Takes a slot unless the request already has one. @returns false if no slot is available */
  takeSlot(): boolean {
    if (this.#slot !== undefined) return true;
    if (!this.#take('inFlight', 1, this.claim)) return false;
    this.#slot = this.claim;
    return true;
  }

  /**
   * Waits in a queue until `start` is called or the request ends.
   *
   * @param bytes how many bytes the request holds while it waits (see `waitingBytes`)
   * @returns false if there is no room for these bytes
   */
  waitIn(queue: Pick<WaitQueue, 'add'>, bytes: number, start: () => void): boolean {
    const { waiting } = this.claim;
    if (waiting !== undefined && !this.#take('buffered', bytes, waiting)) return false;
    this.#waiting = waiting;
    this.#waitingBytes = bytes;
    if (!this.hold(bytes)) {
      this.#endWait();
      return false;
    }
    this.#enter(queue, () => {
      this.release(bytes);
      start();
    });
    return true;
  }

  wait(queue: Pick<WaitQueue, 'add'>): Promise<void> {
    return new Promise((resolve) => this.#enter(queue, resolve));
  }

  #enter(queue: Pick<WaitQueue, 'add'>, start: () => void): void {
    this.#leaveQueue = queue.add(() => {
      this.#endWait();
      start();
    });
  }

  // This is a method, not a closure, because a closure that survives a full garbage collection would keep later requests in memory.
  #endWait(): void {
    this.#leaveQueue = undefined;
    if (this.#waiting !== undefined) this.#budgets.buffered.give(this.#waitingBytes, this.#waiting);
    this.#waiting = undefined;
  }

  /** Takes the request out of its queue and gives all its bytes back. All that remains is to send its response. */
  abandon(): void {
    this.#leaveQueue?.();
    this.#endWait();
    this.release();
  }

  /** Gives everything back, because the request is over. */
  end(): void {
    this.#isOver = true;
    this.abandon();
    this.leaveSlot();
  }

  leaveSlot(): void {
    const slot = this.#slot;
    this.#slot = undefined;
    if (slot !== undefined) this.#budgets.giveSlot(slot);
  }

  /**
   * Takes bytes. If the request already holds bytes, the new ones are charged to the same claim. @returns false if there is no room for
   * them
   */
  hold(bytes: number): boolean {
    if (this.#bytes === 0) this.#bytesClaim = this.claim;
    if (!this.#take('buffered', bytes, this.#bytesClaim)) return false;
    this.#bytes += bytes;
    return true;
  }

  /**
   * Gives up the slot, and charges the bytes of the response instead, because the response has been written but may never be read.
   *
   * @param unread returns how many bytes have not left the process yet
   * @returns false if there is no room for a long response; the request then keeps its slot
   */
  leaveSlotFor(unread: () => number): boolean {
    const bytes = unread();
    if (bytes > shortResponse && !this.holdUnread(bytes)) return false;
    // Over TLS, no byte has left yet. Charge these bytes in a later turn, so that no connection is closed to make room for bytes that are
    // about to leave.
    if (bytes > 0 && bytes <= shortResponse) setImmediate(() => void this.holdUnread(unread()));
    this.leaveSlot();
    return true;
  }

  /**
   * Takes the bytes of a written response, but at most as many as the claim's quotas allow. If the request has no key, a quarter of the
   * quota is left for incomplete heads, which may be from merchants.
   *
   * @returns false if the bytes are not available
   */
  holdUnread(bytes: number): boolean {
    const most = this.claim.tier === 'anonymous' ? besideHeads : 1;
    let taken = bytes;
    for (const { quotas } of this.claim.parts) taken = Math.min(taken, Math.floor(most * quotas[indexes.buffered]));
    return this.hold(taken);
  }

  /** Gives bytes back; by default, all of them. */
  release(bytes = this.#bytes): void {
    const released = Math.min(bytes, this.#bytes);
    if (released > 0) this.#budgets.buffered.give(released, this.#bytesClaim);
    this.#bytes -= released;
  }

  #take(limit: LimitName, amount: number, claim: Claim): boolean {
    if (this.#isOver) return false;
    // A request without a body needs no room. Without this line, it would be refused if its account is already beyond its share, because
    // then even an amount of 0 does not fit.
    if (amount === 0) return true;
    // A request with a secret key closes no anonymous connections, because the share of anonymous clients is too small for that to be
    // worthwhile.
    const evicts = claim.tier === 'public' ? !this.givesWay : limit === 'buffered' && claim.tier === 'anonymous';
    const shortage = this.#budgets[limit].take(amount, claim, evicts ? this.#evictor : undefined);
    if (shortage !== undefined) this.exceeded = { limit, shortage };
    return shortage === undefined;
  }
}

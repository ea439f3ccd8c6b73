import type { EnvironmentName } from '../../accounts/api-key.ts';
import type { Budgets, Claim, Evictor } from './budgets.ts';
import { besideHeads, indexes, type LimitIndex, type LimitName, type Part, type Shortage } from './parts.ts';
import type { Waiter, WaitQueue } from './queues.ts';

/** An unread response of up to this many bytes is charged only if it is still unread in a later turn, and if there is room. */
const shortResponse = 4_096;

/** What a request may not have, and why. */
export interface Exceeded {
  readonly limit: LimitName;
  readonly shortage: Shortage;
}

/** What one request has taken of the budgets, and the queue in which it waits. */
export class Reservation implements Waiter {
  readonly #budgets: Budgets;
  readonly #evictor: Evictor | undefined;
  /** Whom the request is charged to. Only `chargeTo` changes it. */
  claim: Claim;
  #slot: Claim | undefined;
  #bytes = 0;
  #bytesClaim: Claim;
  #leaveQueue: (() => void) | undefined;
  /** Whom the bytes of a waiting request are charged to in addition, and how many there are. */
  #waiting: Claim | undefined;
  #waitingBytes = 0;
  /**
   * Whether the connection may be closed because of its bytes, if it has never carried a valid key: they are held as long as the client
   * likes, in the body for a test endpoint or in a response that the client does not read. A body that waits for a look-up may be a
   * merchant's. What gives way itself takes room only from responses that are not read.
   */
  givesWay = false;
  /**
   * Whether the request is over: the core's response may still be in the middle of being read, and nobody would give back what that takes.
   */
  #isOver = false;
  /** The limit that the request exceeded, and why. */
  exceeded: Exceeded | undefined;

  constructor(budgets: Budgets, claim: Claim, evictor?: Evictor) {
    this.#budgets = budgets;
    this.claim = claim;
    this.#bytesClaim = claim;
    this.#evictor = evictor;
  }

  get heldBytes(): number {
    return this.#bytes;
  }

  get holdsSlot(): boolean {
    return this.#slot !== undefined;
  }

  /** How much the request has taken of a limit, as far as that is charged to this claim. */
  taken(limit: LimitIndex, claim: Claim): number {
    if (limit === indexes.inFlight) return this.#slot === claim ? 1 : 0;
    return limit === indexes.buffered && this.#bytesClaim === claim ? this.#bytes : 0;
  }

  /**
   * Charges the request to an account, with what it holds already: a body that has waited for a look-up must not go on being charged to those
   * without a key.
   *
   * @returns what the account may not have
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

  /** How many of its bytes count in a part. */
  bytesIn(part: Part): number {
    return this.#bytesClaim.parts.includes(part) ? this.#bytes : 0;
  }

  /** Whether it has a place in flight that is for requests without a key. */
  get holdsAnonymousSlot(): boolean {
    return this.#slot?.tier === 'anonymous';
  }

  /** Takes a place in flight unless the request has one; false if none is left. */
  takeSlot(): boolean {
    return this.#takeSlot(this.claim);
  }

  /** Like `takeSlot`, but charged as for a request without a key. */
  takeAnonymousSlot(environment: EnvironmentName): boolean {
    return this.#takeSlot(this.#budgets.anonymous[environment]);
  }

  #takeSlot(claim: Claim): boolean {
    if (this.#slot !== undefined) return true;
    if (!this.#take('inFlight', 1, claim)) return false;
    this.#slot = claim;
    return true;
  }

  /**
   * Waits in a queue, until `start` is called or the request ends.
   *
   * @param bytes how many bytes are held meanwhile
   * @returns false if there is no room for them
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

  // No closure for each wait: closures that a full garbage collection finds would keep later requests in memory.
  #endWait(): void {
    this.#leaveQueue = undefined;
    if (this.#waiting !== undefined) this.#budgets.buffered.give(this.#waitingBytes, this.#waiting);
    this.#waiting = undefined;
  }

  /** Nothing remains but to answer the request: it leaves its queue, and gives all bytes back. */
  abandon(): void {
    this.#leaveQueue?.();
    this.#endWait();
    this.release();
  }

  /** The request is over. */
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

  /** Takes bytes, all charged to the same claim as the first; false if they are not available. */
  hold(bytes: number): boolean {
    if (this.#bytes === 0) this.#bytesClaim = this.claim;
    if (!this.#take('buffered', bytes, this.#bytesClaim)) return false;
    this.#bytes += bytes;
    return true;
  }

  /**
   * Gives up the slot, and takes the bytes of the response instead, which has been written but may never be read.
   *
   * @param unread how many bytes have not left the process at the moment
   * @returns false if there is no room for a long response: then the request keeps its slot
   */
  leaveSlotFor(unread: () => number): boolean {
    const bytes = unread();
    if (bytes > shortResponse && !this.holdUnread(bytes)) return false;
    // Over TLS, no byte has left yet: nothing should be closed for bytes that are about to leave.
    if (bytes > 0 && bytes <= shortResponse) setImmediate(() => void this.holdUnread(unread()));
    this.leaveSlot();
    return true;
  }

  /**
   * Takes the bytes of a written response. One that is longer than all that its claim may have takes that, but leaves a quarter of the part of
   * strangers to incomplete heads, which may be of merchants.
   *
   * @returns false if they are not available
   */
  holdUnread(bytes: number): boolean {
    const most = this.claim.tier === 'anonymous' ? besideHeads : 1;
    let taken = bytes;
    for (const { quotas } of this.claim.parts) taken = Math.min(taken, Math.floor(most * quotas[indexes.buffered]));
    return this.hold(taken);
  }

  /** Gives bytes back, by default all. */
  release(bytes = this.#bytes): void {
    const released = Math.min(bytes, this.#bytes);
    if (released > 0) this.#budgets.buffered.give(released, this.#bytesClaim);
    this.#bytes -= released;
  }

  #take(limit: LimitName, amount: number, claim: Claim): boolean {
    if (this.#isOver) return false;
    // If an account already holds more than its share of what others leave now, even 0 would be too much. A request without a body takes
    // nothing.
    if (amount === 0) return true;
    // The share of strangers is too small for it to be worth closing their connections for what an account holds. Nor would that help
    // requests that wait.
    const evicts = claim.tier === 'public' ? !this.givesWay : limit === 'buffered' && claim.waiting !== undefined;
    const shortage = this.#budgets[limit].take(amount, claim, evicts ? this.#evictor : undefined);
    if (shortage !== undefined) this.exceeded = { limit, shortage };
    return shortage === undefined;
  }
}

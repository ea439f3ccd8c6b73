import type { RequestListener } from 'node:http';
import { FairQueue, NestedFairQueue, TurnAbout } from '../../fair-queue.ts';
import { WaitQueue } from '../../wait-queue.ts';

/** A queue pauses for this many times as long as its work took (see `restAfter`). */
const restFactor = 3;

/**
 * Spreads work over turns of the event loop, so that other requests are served in between. Use it for work that clients can request in any
 * amount.
 */
export class TickQueue {
  readonly #perTick: number;
  readonly #waiting = new WaitQueue();
  #started = 0;
  #scheduled = false;
  readonly #rests: boolean;
  readonly #maxTime: number;
  /** When the latest work started, on `performance.now()`'s scale. */
  #began = 0;
  /** The time before which nothing starts, on the same scale. */
  #restUntil = 0;

  /**
   * @param perTick maximum number of pieces of work that start in one turn of the event loop
   * @param rests whether the queue pauses after each turn in which work has started (see `restAfter`)
   * @param maxTime once a turn has taken this many milliseconds, no further waiting work starts in it
   */
  constructor(perTick: number, rests = false, maxTime = Infinity) {
    this.#perTick = perTick;
    this.#rests = rests;
    this.#maxTime = maxTime;
  }

  /** Whether a piece of work may start in this turn, because no work waits and the turn has room. If so, the work is counted. */
  tryStart(): boolean {
    if (this.#waiting.length > 0 || this.#started >= this.#perTick) return false;
    this.#started += 1;
    // A reset of the count is scheduled only once half of it is used up, so that a request that is alone causes none.
    if (this.#started * 2 >= this.#perTick) this.#schedule();
    return true;
  }

  /** Runs a piece of work in a later turn. @see WaitQueue.add */
  add(start: () => void, isFirst = false): () => void {
    this.#schedule();
    return this.#waiting.add(start, isFirst);
  }

  /**
   * Starts nothing for three times as long as the work took, so that the work takes at most a quarter of the time. Otherwise, long work in
   * every turn, even if it is bounded, would keep new clients waiting, because a turn accepts only a few connections.
   *
   * @param began when the work began, on `performance.now()`'s scale
   * @param most how many milliseconds the work took at most, if other work was done in between
   */
  restAfter(began: number, most = Infinity): void {
    const now = performance.now();
    this.#restUntil = now + restFactor * Math.min(most, now - began);
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    const rest = this.#restUntil === 0 ? 0 : this.#restUntil - performance.now();
    if (rest > 0) setTimeout(this.#run, rest);
    else setImmediate(this.#run);
  }

  readonly #run = (): void => {
    this.#scheduled = false;
    if (this.#rests && this.#started > 0) this.restAfter(this.#began);
    this.#started = 0;
    const now = performance.now();
    this.#began = now;
    if (this.#restUntil > now) {
      this.#schedule();
      return;
    }
    this.#startNext();
  };

  readonly #startNext = (): void => {
    if (this.#started >= this.#perTick || performance.now() - this.#began >= this.#maxTime) return;
    const start = this.#waiting.shift();
    if (start === undefined) return;
    this.#started += 1;
    // Schedule another turn even if no other work waits, because only a new turn resets the count.
    this.#schedule();
    start();
    // `start` may resolve a promise. Start the next item only after all promise callbacks have run, so that their time counts too.
    queueMicrotask(() => process.nextTick(this.#startNext));
  };
}

/** The part of a queue that belongs to one owner. */
export type OwnTickQueue = Pick<TickQueue, 'add' | 'restAfter' | 'tryStart'>;

/**
 * Adds a turn for the next piece of the work that waits in a queue.
 *
 * @param withdraw withdraws the piece of work that was added to that queue
 * @returns a function that withdraws this piece of work and the turn
 */
function addTurn(
  ticks: Pick<TickQueue, 'add'>,
  waiting: Pick<WaitQueue, 'shift'>,
  withdraw: (() => unknown) | undefined,
): () => void {
  const withdrawTurn = ticks.add(() => waiting.shift()?.());
  return () => {
    withdraw?.();
    withdrawTurn();
  };
}

/** Like `TickQueue`, but for the work of several owners, which take turns. If there are groups of owners, the groups take turns too. */
export class FairTickQueue<Owner> {
  readonly #ticks: TickQueue;
  readonly #groups: readonly FairQueue<Owner>[];
  readonly #work: TurnAbout;

  /** The other parameters are those of `TickQueue`. */
  constructor(perTick: number, maxTime?: number, groups = 1) {
    this.#ticks = new TickQueue(perTick, false, maxTime);
    this.#groups = Array.from({ length: groups }, () => new FairQueue<Owner>());
    this.#work = new TurnAbout(...this.#groups);
  }

  of(owner: Owner, group = 0): OwnTickQueue {
    return {
      tryStart: () => this.#ticks.tryStart(),
      add: (start) => addTurn(this.#ticks, this.#work, this.#groups[group]?.add(owner, start)),
      restAfter: (began, most) => this.#ticks.restAfter(began, most),
    };
  }
}

/** Like `TickQueue`, but networks take turns, and within a network, smaller networks and clients do. */
export class NestedTickQueue {
  readonly #ticks: Pick<TickQueue, 'add'>;
  readonly #waiting = new NestedFairQueue();

  constructor(ticks: Pick<TickQueue, 'add'>) {
    this.#ticks = ticks;
  }

  /** @param path see `NestedFairQueue.add` @param evict called instead of `start` if the work is evicted */
  queueOf(path: readonly string[], evict: () => void): Pick<TickQueue, 'add'> {
    return { add: (start) => addTurn(this.#ticks, this.#waiting, this.#waiting.add(path, { start, evict })) };
  }

  /** Evicts the oldest work of the network with the most work. @returns false if no work waits */
  evict(): boolean {
    const isEmpty = this.#waiting.length === 0;
    this.#waiting.evict();
    return !isEmpty;
  }
}

/**
 * How many requests from the same queue start in a turn of the event loop. Eight refusals take about as long as one enveloped exchange, so
 * a flood of requests without a key at most doubles the time of a turn.
 */
const startedInTurn = 8;

/**
 * Once a turn has taken this many milliseconds, no further waiting request starts in it, because a single request's body may take as long.
 */
const requestsTime = 5;

/** How many clients that have sent a lot of data are read again in a turn. In each turn, a megabyte is read. */
const readAgainInTurn = 4;

/** How many connections to an upstream are read again in a turn, after they have sent a lot of data, or many small pieces or chunks. */
export const readOnInTurn = 1;

/**
 * How many clients without a key in a batch must send many small pieces in the same turn to break the batch. The number is greater than
 * two, because two TLS handshakes begin even in a short turn, so two such clients may arrive in each turn.
 */
const floodsInTurn = 4;

/**
 * Clients that wait only because other clients have sent many small pieces. Most of them have sent nothing and cost nothing, so a batch of
 * them is read in a turn. Once `breaking` clients in a batch have sent many small pieces themselves, the rest of the batch waits again.
 */
export class HeldUp extends TickQueue {
  /** How many clients in the batch have sent many small pieces in this turn. */
  #offenders = 0;
  /** How many such clients break the batch. */
  readonly #breaking: number;

  constructor(breaking: number) {
    super(64);
    this.#breaking = breaking;
  }

  /** Counts a client in the batch that has sent many small pieces. @returns whether this client breaks the batch */
  isBrokenByOneMore(): boolean {
    if (this.#offenders === 0) setImmediate(() => (this.#offenders = 0));
    this.#offenders += 1;
    return this.#offenders >= this.#breaking;
  }
}

/** A client that is read in turns. */
interface Reader {
  readonly turn: {
    /** The queue in which the client waited, if it was held up and its turn has come. */
    readonly batchOf: HeldUp | undefined;
  };
  /**
   * Makes the client wait for its turn.
   *
   * @param broken the queue whose batch is broken, if there is one. A client in this batch waits again, but goes first in the next turn.
   */
  holdUp(broken: HeldUp | undefined): void;
}

/** Queues for several accounts, which take turns: for requests, and for clients that have sent a lot of data or many small pieces. */
export class QueuesOfAll {
  readonly requests = new FairTickQueue<Turns>(startedInTurn, requestsTime);
  readonly smallPieces = new FairTickQueue<Turns>(1);
  readonly bytes = new FairTickQueue<Turns>(readAgainInTurn);
}

/** The queues in which requests and clients that belong together wait for a turn of the event loop. */
export class Turns {
  /** Requests that wait to start. */
  readonly requests: OwnTickQueue;
  /** The clients that are read in these turns. */
  readonly readers = new Set<Reader>();
  /** Clients that wait to be read again because they have sent many small pieces. */
  readonly smallPieces: Pick<TickQueue, 'add'>;
  /** Clients that wait to be read again because they have sent a lot of data. */
  readonly bytes: Pick<TickQueue, 'add'>;
  /** Bodies that were sent to the test endpoints with a secret key. */
  readonly cipherTests = new TickQueue(1);
  readonly heldUp: HeldUp;
  /** Like `heldUp`, but only for new connections. */
  readonly heldUpNew: HeldUp;

  /**
   * @param areAnonymous whether the clients have no key, so that there may be any number of them
   * @param shared       the queues of several accounts, if these are the turns of one of them. The accounts take turns
   */
  constructor(areAnonymous = false, shared?: QueuesOfAll) {
    const breaking = areAnonymous ? floodsInTurn : 1;
    this.requests = shared?.requests.of(this) ?? new TickQueue(startedInTurn, false, requestsTime);
    this.smallPieces = shared?.smallPieces.of(this) ?? new TickQueue(1, areAnonymous);
    this.bytes = shared?.bytes.of(this) ?? new TickQueue(readAgainInTurn);
    this.heldUp = new HeldUp(breaking);
    this.heldUpNew = new HeldUp(breaking);
  }

  /**
   * Makes all other clients wait for their turn, because each of them may cause as much work as `than` in this turn of the event loop.
   *
   * @param than the client that has caused too much work, usually with many small pieces
   */
  holdUpOthers(than: Reader): void {
    const { batchOf } = than.turn;
    const broken = batchOf?.isBrokenByOneMore() === true ? batchOf : undefined;
    for (const reader of this.readers) if (reader !== than) reader.holdUp(broken);
  }
}

/** The groups that wait together, in order of precedence: clients with a secret or a public key in each environment, and all others. */
const crowds = ['live', 'livePublic', 'test', 'testPublic', 'anonymous'] as const;
export type Crowd = (typeof crowds)[number];

/**
 * Creates a queue for each crowd, so that merchants do not wait for clients without a key, secret keys do not wait for public keys, and
 * live does not wait for test.
 */
export function queuesByCrowd<T>(createQueue: (crowd: Crowd) => T): Readonly<Record<Crowd, T>> {
  return Object.fromEntries(crowds.map((crowd) => [crowd, createQueue(crowd)])) as Record<Crowd, T>;
}

/** A queue for each crowd in which a few requests start per turn. */
export function queuesOfRequests(): Readonly<Record<Crowd, TickQueue>> {
  return queuesByCrowd(() => new TickQueue(startedInTurn));
}

/**
 * Answers one request in each turn of the event loop, so that merchants are served in between, however many connections other clients open.
 * A waiting request is withdrawn when its client leaves.
 */
export function oneInATurn(answer: RequestListener): RequestListener {
  const queue = new TickQueue(1);
  return (req, res) => {
    const withdraw = queue.add(() => answer(req, res));
    res.once('close', withdraw);
  };
}

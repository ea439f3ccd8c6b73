import type { RequestListener } from 'node:http';
import { LinkedList, type Linked } from '../../linked-list.ts';

class WaitingWork implements Linked<WaitingWork> {
  previous: WaitingWork | undefined;
  next: WaitingWork | undefined;
  readonly start: () => void;

  constructor(start: () => void) {
    this.start = start;
  }
}

/** Work that waits in order. The caller must bound it, and withdraw what belongs to a request that has ended. */
export class WaitQueue {
  readonly #waiting = new LinkedList<WaitingWork>();

  get length(): number {
    return this.#waiting.size;
  }

  /**
   * @param start must not throw
   * @param isFirst whether it goes before what waits
   * @returns a function that withdraws the work
   */
  add(start: () => void, isFirst = false): () => void {
    const work = new WaitingWork(start);
    if (isFirst) this.#waiting.addFirst(work);
    else this.#waiting.add(work);
    return () => this.#waiting.remove(work);
  }

  /** Removes the work that has waited longest, for the caller to start. */
  shift(): (() => void) | undefined {
    const { first } = this.#waiting;
    if (first === undefined) return undefined;
    this.#waiting.remove(first);
    return first.start;
  }
}

/** A request, as far as it can wait. */
export interface Waiter {
  /** Waits in a queue. The promise never settles if the request ends before its turn. */
  wait(queue: Pick<WaitQueue, 'add'>): Promise<void>;
}

/** Limits the work that goes on at a time. Work that ends hands its place to that which waits, in the first queue that is not empty. */
export class Semaphore {
  readonly #queues: readonly Pick<WaitQueue, 'shift'>[];
  #pending = 0;

  constructor(...queues: readonly Pick<WaitQueue, 'shift'>[]) {
    this.#queues = queues;
  }

  /** Runs `work`: at once if fewer than `limit` pieces go on, otherwise after a wait in `queue`, one of this semaphore's. */
  async run<T>(limit: number, queue: Pick<WaitQueue, 'add'>, waiter: Waiter, work: () => T | Promise<T>): Promise<T> {
    if (this.#pending < limit) this.#pending += 1;
    else await waiter.wait(queue);
    try {
      return await work();
    } finally {
      let next: (() => void) | undefined;
      for (const each of this.#queues) next ??= each.shift();
      if (next === undefined) this.#pending -= 1;
      else next();
    }
  }
}

/** Work that rests does so for this many times as long as it took. */
const restFactor = 3;

/**
 * Spreads work over turns of the event loop, so that other requests are served in between. For work that clients can
 * request in any amount.
 */
export class TickQueue {
  readonly #perTick: number;
  readonly #waiting = new WaitQueue();
  #started = 0;
  #scheduled = false;
  readonly #rests: boolean;
  readonly #maxTime: number;
  /** When the latest work started, and before when nothing starts, both on `performance.now()`'s scale. */
  #began = 0;
  #restUntil = 0;

  /**
   * @param perTick pieces of work that start in one turn of the event loop, at most
   * @param rests whether they rest after each turn in which one has started (see `restAfter`)
   * @param maxTime after so many milliseconds no further piece that waited starts in a turn
   */
  constructor(perTick: number, rests = false, maxTime = Infinity) {
    this.#perTick = perTick;
    this.#rests = rests;
    this.#maxTime = maxTime;
  }

  /** Whether a piece of work may start in this turn, because none waits and there is room. If so, it is counted. */
  tryStart(): boolean {
    if (this.#waiting.length > 0 || this.#started >= this.#perTick) return false;
    this.#started += 1;
    // The first half may start in several turns: a request that is alone needs no reset.
    if (this.#started * 2 >= this.#perTick) this.#schedule();
    return true;
  }

  /** Runs a piece of work in a later turn. @see WaitQueue.add */
  add(start: () => void, isFirst = false): () => void {
    this.#schedule();
    return this.#waiting.add(start, isFirst);
  }

  /**
   * Starts nothing for three times as long as its work took, which then takes a quarter of the time at most. Connections are accepted, and
   * handshakes begin, a few in a turn of the event loop: long work in every turn, even if it is bounded, would keep new clients waiting.
   *
   * @param began when the work began, on `performance.now()`'s scale
   */
  restAfter(began: number): void {
    const now = performance.now();
    this.#restUntil = now + restFactor * (now - began);
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
    while (this.#started < this.#perTick && performance.now() - now < this.#maxTime) {
      const start = this.#waiting.shift();
      if (start === undefined) break;
      this.#started += 1;
      // Also without waiting work, once: only a new turn resets the count.
      this.#schedule();
      start();
    }
  };
}

/**
 * Requests that start in a turn of the event loop, of those who wait together. Eight refusals take about as long as one enveloped
 * exchange, so that a flood of requests without a key at most doubles the time of a turn.
 */
export const startedInTurn = 8;

/** Milliseconds of a turn after which no further request that waited starts in it: the body of one may take as long. */
const requestsTime = 5;

/** Connections to an upstream that are read on in a turn, because they have sent much, or many small pieces or chunks. */
export const readOnInTurn = 1;

/**
 * Clients without a key that are closed in a turn because of many small TLS records, and so break a batch. Two handshakes begin in a turn: as
 * many may follow.
 */
const floodsInTurn = 4;

/**
 * Clients that only wait because others have sent many small pieces. Most have sent nothing and cost nothing: a batch of them is read in a turn.
 * Of those that have, the first one with many small pieces has the rest of its batch wait again.
 */
export class HeldUp extends TickQueue {
  /** Those in the batch that have sent many small pieces in this turn, and how many of them break it. */
  #offenders = 0;
  readonly #breaking: number;

  constructor(breaking: number) {
    super(64);
    this.#breaking = breaking;
  }

  /** Counts one of the batch that has sent many small pieces. @returns whether it breaks the batch */
  isBrokenByOneMore(): boolean {
    if (this.#offenders === 0) setImmediate(() => (this.#offenders = 0));
    this.#offenders += 1;
    return this.#offenders >= this.#breaking;
  }
}

/** A client, as far as it is read. */
interface Reader {
  readonly turn: {
    /** Where it waited, if it is one of those held up whose turn has come. */
    readonly batchOf: HeldUp | undefined;
  };
  /** Has it wait for its turn. @param broken also if it is in the batch of this queue: then it goes first in the next turn */
  holdUp(broken: HeldUp | undefined): void;
}

/** Where those who wait together wait for a turn of the event loop. */
export class Turns {
  /** Requests that start. */
  readonly requests: TickQueue;
  /** The clients that are read in turns. */
  readonly readers = new Set<Reader>();
  /** Clients that are read on, because they have sent many small pieces, or much: a megabyte in a turn. */
  readonly smallPieces: TickQueue;
  readonly bytes: TickQueue;
  /** Bodies for the test endpoints with their secret keys. */
  readonly cipherTests = new TickQueue(1);
  readonly heldUp: HeldUp;
  /** New connections wait among themselves. */
  readonly heldUpNew: HeldUp;
  #isHoldingUp = false;

  /**
   * @param areStrangers whether they are clients without a key, of which there may be any number
   * @param shared       with whom their requests, and those who have sent much, wait together
   */
  constructor(areStrangers = false, shared?: Turns) {
    const breaking = areStrangers ? floodsInTurn : 1;
    this.requests = shared?.requests ?? new TickQueue(startedInTurn, false, requestsTime);
    this.smallPieces = shared?.smallPieces ?? new TickQueue(1, areStrangers);
    this.bytes = shared?.bytes ?? new TickQueue(4);
    this.heldUp = new HeldUp(breaking);
    this.heldUpNew = new HeldUp(breaking);
  }

  /**
   * Has all clients but one wait for their turn, because it has sent many small pieces: each may have sent as many, which would all be
   * processed in this turn.
   */
  holdUpOthers(than: Reader): void {
    // Each of those calls this.
    if (this.#isHoldingUp) return;
    this.#isHoldingUp = true;
    const { batchOf } = than.turn;
    const broken = batchOf?.isBrokenByOneMore() === true ? batchOf : undefined;
    for (const reader of this.readers) if (reader !== than) reader.holdUp(broken);
    this.#isHoldingUp = false;
  }
}

/** Those who wait together: without a valid key, or with a public or a secret one of an environment. The first ones go first. */
const crowds = ['live', 'livePublic', 'test', 'testPublic', 'anonymous'] as const;
export type Crowd = (typeof crowds)[number];

/**
 * A queue for each crowd: strangers do not keep merchants waiting, nor public keys secret ones, nor the test environment the live one.
 */
export function queuesByCrowd<T>(createQueue: (crowd: Crowd) => T): Readonly<Record<Crowd, T>> {
  return Object.fromEntries(crowds.map((crowd) => [crowd, createQueue(crowd)])) as Record<Crowd, T>;
}

/**
 * Answers one request in a turn of the event loop, so that merchants are served in between, however many connections strangers have.
 * The others wait for as long as their clients do.
 */
export function oneInATurn(answer: RequestListener): RequestListener {
  const queue = new TickQueue(1);
  return (req, res) => {
    const withdraw = queue.add(() => answer(req, res));
    res.once('close', withdraw);
  };
}

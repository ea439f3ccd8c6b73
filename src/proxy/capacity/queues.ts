import type { IncomingMessage, RequestListener } from 'node:http';
import { smallPiecesOfRequest } from '../../http1/read-pace.ts';
import { FairTickQueue, TickQueue, type OwnTickQueue } from '../../tick-queue.ts';
import { NewestFirst, type WaitQueue } from '../../wait-queue.ts';

/**
 * How many requests from the same queue start in a turn of the event loop. Eight refusals take about as long as one enveloped exchange, so
 * a flood of requests without a key at most doubles the time of a turn.
 */
export const startedInTurn = 8;

/**
 * Once a turn has taken this many milliseconds, no further waiting request starts in it, because a single request's body may take as long.
 */
const requestsTime = 5;

/** How many clients that have sent a lot of data are read again in a turn. That is up to a megabyte per turn. */
const readAgainInTurn = 4;

/** How many connections to an upstream are read again in a turn, after they have sent a lot of data, or many small pieces or chunks. */
const readOnInTurn = 1;

/**
 * How many milliseconds the heads of requests may take in a turn before the other clients of the account, or without a key, must wait. A
 * head of 15 KB takes up to half a millisecond, and thousands of clients may send one at the same time.
 */
const headsTime = 8;

/**
 * A queue of connections to an upstream that wait to be read again. The accounts whose responses they carry take turns. Requests with secret
 * keys and all others are two groups, because anyone can use the public keys of any number of accounts.
 */
export function queueOfUpstreamReads(): { of(owner: object): OwnTickQueue } {
  const queue = new FairTickQueue<object>(readOnInTurn, undefined, 2);
  return { of: (owner) => queue.of(owner, 'tier' in owner && owner.tier === 'secret' ? 0 : 1) };
}

/**
 * How many clients without a key in a batch must send many small pieces in the same turn to break the batch. The number is greater than
 * two, because two TLS handshakes begin even in a short turn, so two such clients may arrive in each turn.
 */
const floodsInTurn = 4;

/**
 * How many small pieces of one request are not counted, and how many others may arrive in a turn before the other clients of the account, or
 * without a key, must wait. Each TLS record takes microseconds, also if it is empty and therefore not reported. Thousands of clients may
 * send records at the same time, each of them fewer than would make it wait.
 */
const pieces = { anonymous: { free: 1, inTurn: 16 }, ofAccount: { free: smallPiecesOfRequest, inTurn: 512 } } as const;

/**
 * Clients that wait only because other clients have sent many small pieces. Most of them have sent nothing and cost nothing, so a batch of
 * them is read in a turn. Once `breaking` clients in a batch have sent many small pieces themselves, the rest of the batch waits again.
 */
export class HeldUp extends TickQueue {
  /** How many clients in the batch have sent many small pieces in this turn. */
  #offenders = 0;
  /** How many such clients break the batch. */
  readonly #breaking: number;

  constructor(breaking: number, waiting?: WaitQueue) {
    super(64, false, Infinity, waiting);
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
   * Suspends the client until its turn comes.
   *
   * @param broken the queue whose batch is broken, if there is one. A client in this batch waits again, but goes first in the next turn.
   */
  holdUp(broken: HeldUp | undefined): void;
}

/** How long the heads of requests have taken in this turn of the event loop. */
class HeadTime {
  #took = 0;
  /** Counts the turns in which there were heads. */
  turn = 0;

  /** Adds the milliseconds that a head took. @returns whether the heads have taken too long */
  isTooLong(took: number): boolean {
    if (this.#took === 0) {
      setImmediate(() => {
        this.#took = 0;
        this.turn += 1;
      });
    }
    this.#took += took;
    return this.#took >= headsTime;
  }
}

/** How many small pieces have been counted in this turn of the event loop. */
class PieceCount {
  #count = 0;
  /** Counts the turns in which there were such pieces. */
  turn = 0;

  /** Counts a piece. @returns how many there were in this turn */
  add(): number {
    if (this.#count === 0) {
      setImmediate(() => {
        this.#count = 0;
        this.turn += 1;
      });
    }
    this.#count += 1;
    return this.#count;
  }
}

/** Queues for several accounts, which take turns: for requests, and for clients that have sent a lot of data or many small pieces. */
export class QueuesOfAll {
  readonly heads = new HeadTime();
  readonly pieces = new PieceCount();
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
  readonly #heads: HeadTime;
  /** The latest turn in which heads have taken too long. */
  #heldUpIn = -1;
  readonly #allowed: (typeof pieces)[keyof typeof pieces];
  readonly #pieces: PieceCount;
  /** The latest turn in which there were too many small pieces. */
  #crowdedIn = -1;

  /**
   * @param areAnonymous whether the clients have no key, so that there may be any number of them
   * @param shared       the queues that this account shares with other accounts, which take turns; undefined if it shares none
   */
  constructor(areAnonymous = false, shared?: QueuesOfAll) {
    const breaking = areAnonymous ? floodsInTurn : 1;
    this.requests = shared?.requests.of(this) ?? new TickQueue(startedInTurn, false, requestsTime);
    this.smallPieces = shared?.smallPieces.of(this) ?? new TickQueue(1, areAnonymous);
    this.bytes = shared?.bytes.of(this) ?? new TickQueue(readAgainInTurn);
    this.heldUp = new HeldUp(breaking);
    this.heldUpNew = new HeldUp(breaking, new NewestFirst());
    this.#heads = shared?.heads ?? new HeadTime();
    this.#pieces = shared?.pieces ?? new PieceCount();
    this.#allowed = areAnonymous ? pieces.anonymous : pieces.ofAccount;
  }

  /** Counts a small piece of a client's request. @param nth which one it is */
  countPiece(client: Reader, nth: number): void {
    if (nth <= this.#allowed.free) return;
    const count = this.#pieces.add();
    const { turn } = this.#pieces;
    // Each account that shares the count holds up its own clients. Clients that go on break the batch that they are in.
    const isNew = count >= this.#allowed.inTurn && this.#crowdedIn !== turn;
    if (!isNew && count % this.#allowed.inTurn !== 0) return;
    this.#crowdedIn = turn;
    this.holdUpOthers(client);
  }

  /**
   * Serves a head, or finds room for a piece of one, which takes milliseconds if there are thousands of connections. Holds up the other
   * clients if all such work has taken too long in this turn of the event loop.
   */
  time<T>(client: Reader, work: () => T): T {
    const began = performance.now();
    const result = work();
    if (this.#heads.isTooLong(performance.now() - began) && this.#heldUpIn !== this.#heads.turn) {
      this.#heldUpIn = this.#heads.turn;
      this.holdUpOthers(client);
    }
    return result;
  }

  /**
   * Suspends all other clients until their turns come, because each of them may cause as much work as `than` in this turn of the event
   * loop.
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

/**
 * Answers one request in each turn of the event loop, so that merchants are served in between, however many connections other clients open.
 * A waiting request is withdrawn when its client leaves.
 *
 * @param ownerOf whose request it is, because owners take turns; undefined if the request is answered at once
 */
export function oneInATurn(
  answer: RequestListener,
  ownerOf: (req: IncomingMessage) => string | undefined = () => 'all',
): RequestListener {
  const queue = new FairTickQueue<string>(1);
  return (req, res) => {
    const owner = ownerOf(req);
    if (owner === undefined) answer(req, res);
    else
      res.once(
        'close',
        queue.of(owner).add(() => answer(req, res)),
      );
  };
}

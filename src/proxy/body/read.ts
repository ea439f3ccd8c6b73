import { FairQueue, TurnAbout } from '../../fair-queue.ts';
import { sliceLength } from '../../slices.ts';
import { Refusal } from '../../errors.ts';
import type { BodySink, RequestFault } from '../../http1/parse/request-reader.ts';
import { continueWith } from '../../promises.ts';
import type { RequestHead } from '../admit/head.ts';
import type { Claim } from '../capacity/budgets.ts';
import { queuesByCrowd, type Crowd } from '../capacity/queues.ts';
import { Semaphore } from '../../wait-queue.ts';
import type { Reservation } from '../capacity/reservation.ts';
import type { Responder } from '../respond/responder.ts';

/** Whether the body has a content coding. */
export function isEncoded({ contentEncoding }: RequestHead): boolean {
  return contentEncoding !== undefined && contentEncoding.toLowerCase() !== 'identity';
}

/** How many bytes of a head are not charged, because they count as part of the connection's memory. */
const shortHead = 2_048;

/** How many bytes are initially reserved for a body. */
const minCapacity = 1_024;

/**
 * Processing a body of up to this many bytes takes no longer than a small request. Requests with longer bodies wait, and start in a turn of
 * the event loop only while that turn has time left.
 */
const quickBody = 8_192;

/** The first bytes of a body, or all of it. */
export interface CollectedBody {
  readonly bytes: Buffer;
  /** Whether `bytes` are the whole body; otherwise the rest is still to come. */
  readonly whole: boolean;
}

/**
 * Collects a body, within the budget of all requests, until the body ends, the body exceeds `limit` bytes, or `goOn` returns false. Unless
 * the body is whole, reading is paused afterwards.
 *
 * There is no result if the client leaves, the time runs out, or the body's bytes are invalid, because the request is then over.
 */
class Collector implements BodySink {
  readonly #responder: Responder;
  readonly #limit: number;
  readonly #goOn: (bytes: Buffer) => boolean;
  readonly #settle: (result: CollectedBody | Refusal) => void;
  #bytes = Buffer.alloc(0);
  #length = 0;
  #done = false;

  constructor(
    responder: Responder,
    limit: number,
    goOn: (bytes: Buffer) => boolean,
    settle: (result: CollectedBody | Refusal) => void,
  ) {
    this.#responder = responder;
    this.#limit = limit;
    this.#goOn = goOn;
    this.#settle = settle;
  }

  onData(piece: Buffer): void {
    const length = this.#length + piece.length;
    if (length > this.#bytes.length && !this.#grow(length)) {
      this.#stop(new Refusal('overloaded'));
      return;
    }
    piece.copy(this.#bytes, this.#length);
    this.#length = length;
    if (length > this.#limit || !this.#goOn(this.#whole)) this.#stop({ bytes: this.#whole, whole: false });
  }

  onEnd(): void {
    // The body has arrived in time, but its request may have to wait for its turn and for another look-up.
    this.#responder.http.deadline = Infinity;
    this.#finish({ bytes: this.#whole, whole: true });
  }

  onFault(fault: RequestFault): void {
    this.#responder.bodyFails(fault);
  }

  get #whole(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Allocates a buffer for at least `length` bytes, after reserving its memory. @returns false if the memory is not available */
  #grow(length: number): boolean {
    const stated = this.#responder.exchange.head?.framing.length ?? Infinity;
    const doubled = Math.max(minCapacity, length, 2 * this.#bytes.length);
    const capacity = Math.max(length, Math.min(doubled, stated, this.#limit));
    if (!this.#responder.reservation.hold(capacity - this.#bytes.length)) return false;
    // Node's pool is not used, because a few bytes of it would keep 64 KiB alive.
    const larger = Buffer.allocUnsafeSlow(capacity);
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
    return true;
  }

  #stop(result: CollectedBody | Refusal): void {
    this.#responder.http.pause();
    this.#finish(result);
  }

  #finish(result: CollectedBody | Refusal): void {
    // The end of the body may arrive with the piece that made the collector stop.
    if (this.#done) return;
    this.#done = true;
    this.#responder.timing.resume();
    if (!this.#responder.settled) this.#settle(result);
  }
}

/**
 * Collects a body (see `Collector`). The result is not a promise if the body arrived with the head. If the body ends later, its request
 * then waits for its turn among the requests. The promise never settles if there is no result.
 *
 * @param outlives whether the body is used after the caller returns to the event loop. A body that arrived with the head is a view of the
 *   read buffer, which the next read overwrites.
 * @param goOn called after each read, with all bytes so far
 */
export function collect(
  responder: Responder,
  limit: number,
  outlives: boolean,
  goOn: (bytes: Buffer) => boolean = () => true,
): CollectedBody | Refusal | Promise<CollectedBody | Refusal> {
  if (responder.hasWholeBody) {
    const bytes = responder.takeWholeBody(outlives);
    return bytes instanceof Refusal ? bytes : { bytes, whole: true };
  }
  const { exchange, http, reservation } = responder;
  if (exchange.head?.expectsContinue === true) http.sendInformation(100, []);
  responder.setDeadline('request_timeout');
  // Charge the head too, because its strings keep the whole head in memory while the body arrives.
  const held = (http.head?.size ?? 0) - shortHead;
  if (held > 0 && !reservation.hold(held)) return new Refusal('overloaded');
  const { requests } = reservation.claim.turns;
  return new Promise((resolve) => {
    const settle = (result: CollectedBody | Refusal): void => {
      if (result instanceof Refusal || !result.whole) resolve(result);
      // Many bodies may end in the same turn of the event loop, so only a few of their requests continue at once; the rest wait.
      else if (result.bytes.length <= quickBody && requests.tryStart()) resolve(result);
      else void reservation.wait(requests).then(() => resolve(result));
    };
    http.readBody(new Collector(responder, limit, goOn, settle));
  });
}

const nothing = Buffer.alloc(0);

/**
 * Reads a body of up to `limit` bytes into memory, within the budget of all requests and within `timeouts.request`. The result is empty if
 * there is no body.
 *
 * @param outlives see `collect`
 */
export function readBody(
  responder: Responder,
  { framing }: RequestHead,
  limit: number,
  outlives: boolean,
): Buffer | Refusal | Promise<Buffer | Refusal> {
  if (framing.type === 'none') return nothing;
  if ((framing.length ?? 0) > limit) return new Refusal('body_too_large');
  return continueWith(collect(responder, limit, outlives), (read) => {
    if (read instanceof Refusal) return read;
    return read.whole && read.bytes.length <= limit ? read.bytes : new Refusal('body_too_large');
  });
}

/** A body of up to this many bytes does not wait for bodies that take much longer. */
const mediumBody = 4 * sliceLength;

/**
 * Checks and opens long bodies a few at a time, because each takes memory in addition to its bytes, and because the slices of all bodies in
 * progress add up in a turn of the event loop. One medium and one longer body at a time are opened for secret keys in live, one of each for
 * secret keys in test, and one of each for all other requests. Among the other requests, public keys in live, public keys in test, and
 * requests without a key take turns. Accounts take turns too.
 */
export class LongBodies {
  readonly #medium = createPlaces();
  readonly #longer = createPlaces();

  /**
   * Calls `work` with a body: at once if the body is short, otherwise when its turn comes.
   *
   * @param work must use only the body that is passed to it, so that a waiting body can be released. If the request ends before its turn,
   *   `work` is not called, the promise never settles, and nothing refers to the body any more.
   */
  run<T>(reservation: Reservation, body: Buffer, work: (body: Buffer) => T | Promise<T>): T | Promise<T> {
    // Every body that arrived with its head is this short, because it is a view of one read, and no read is longer than a slice.
    if (body.length <= sliceLength) return work(body);
    const { claim } = reservation;
    const { semaphore, queue } = (body.length <= mediumBody ? this.#medium : this.#longer)[claim.crowd];
    const turns = { add: (start: () => void) => queue.add(claim, start) };
    return semaphore.run(1, turns, reservation, () => work(body));
  }
}

/** The queue in which a crowd's long bodies wait, and the semaphore that limits how many are opened at a time. */
interface Place {
  readonly queue: FairQueue<Claim>;
  readonly semaphore: Semaphore;
}

function createPlaces(): Readonly<Record<Crowd, Place>> {
  const { live, test, ...others } = queuesByCrowd(() => new FairQueue<Claim>());
  const semaphore = new Semaphore(new TurnAbout(...Object.values(others)));
  return {
    live: { queue: live, semaphore: new Semaphore(live) },
    test: { queue: test, semaphore: new Semaphore(test) },
    livePublic: { queue: others.livePublic, semaphore },
    testPublic: { queue: others.testPublic, semaphore },
    anonymous: { queue: others.anonymous, semaphore },
  };
}

import type { IncomingMessage, ServerResponse } from 'node:http';
import { connectionOf, type ClientConnection } from './client-connection.ts';
import { Reservation, type Budgets } from './limits.ts';
import { headSize, statedLength } from './request-head.ts';

/**
 * Spreads work over turns of the event loop, so that other requests are served in between. For work that clients can
 * request in any amount. The caller must bound the waiting work.
 */
export class Turns {
  readonly #perTurn: number;
  readonly #waiting: (() => void)[] = [];
  #begun = 0;
  #scheduled = false;

  /** @param perTurn pieces of work that begin in a turn */
  constructor(perTurn: number) {
    this.#perTurn = perTurn;
  }

  /** Whether a piece of work may begin in this turn, because none waits and there is room. If so, it is counted. */
  takeNow(): boolean {
    if (this.#waiting.length > 0 || this.#begun >= this.#perTurn) return false;
    this.#begun += 1;
    this.#schedule();
    return true;
  }

  /** Runs a piece of work in a later turn, in the order of the calls. It must not throw. */
  add(work: () => void): void {
    this.#waiting.push(work);
    this.#schedule();
  }

  /** Resolves in a later turn, in the order of the calls. */
  next(): Promise<void> {
    return new Promise((resolve) => this.add(resolve));
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(this.#run);
  }

  readonly #run = (): void => {
    const ready = this.#waiting.splice(0, this.#perTurn);
    this.#begun = ready.length;
    this.#scheduled = false;
    if (ready.length > 0) this.#schedule();
    for (const work of ready) work();
  };
}

/** Requests of one queue that begin in a turn of the event loop. */
const perTurn = 8;

/** Bytes of an unread body that Node may hold: its buffer of 64 KiB, and the read of up to 64 KiB that fills it. */
const maxReadAhead = 131_072;

/** Bytes of Node's objects for a request that waits, and for each field of its head, beside the text (measured). */
const requestMemory = 3_000;
const fieldMemory = 150;

/** A request that has been read, before anything is decided about it. */
export interface Arrived {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** Bytes of the heads that may wait on its connection. */
  readonly maxWaitingBytes: number;
  /** Whether it carries a secret key that is found without waiting. */
  readonly isMerchants: () => boolean;
  readonly begin: () => void;
}

/**
 * Decides when requests begin. Few begin in a turn of the event loop, so that the requests in progress are served in between.
 * Merchants do not wait for strangers; only their pipelined requests wait, for each other.
 */
export class RequestOrder {
  readonly #merchants = new Turns(perTurn);
  readonly #strangers = new Turns(perTurn);
  readonly #budgets: Budgets;

  constructor(budgets: Budgets) {
    this.#budgets = budgets;
  }

  /** Whether a request begins at once; if not, it must be added. */
  beginsNow(connection: ClientConnection, res: ServerResponse): boolean {
    return res.socket !== null && (connection.isMerchants || this.#strangers.takeNow());
  }

  /** Begins a request as soon as it may, unless its connection ends before. */
  add(arrived: Arrived): void {
    const { req, res } = arrived;
    const connection = connectionOf(req.socket);
    if (res.socket === null) this.#addPipelined(arrived, connection);
    else if (arrived.isMerchants()) arrived.begin();
    else this.#addStranger(arrived, connection);
  }

  #addStranger({ req, begin }: Arrived, connection: ClientConnection): void {
    const body = readAhead(req);
    // Without room in the budget for its body, the request begins now, so that it is refused.
    if (!this.#holds(connection, body)) {
      begin();
      return;
    }
    connection.isFirstWaiting = true;
    this.#strangers.add(() => {
      connection.isFirstWaiting = false;
      connection.waitingBuffers?.release(body);
      if (!req.socket.destroyed) begin();
    });
  }

  /**
   * A pipelined request begins after the response to the one before (RFC 9112 §9.3.2): that may end the connection, and
   * responses must not overtake each other. Meanwhile it is not in flight, or one connection could use up the limit.
   */
  #addPipelined({ req, res, maxWaitingBytes, begin }: Arrived, connection: ClientConnection): void {
    const size = headSize(req);
    const held = size + requestMemory + (fieldMemory * req.rawHeaders.length) / 2 + readAhead(req);
    connection.waiting += 1;
    connection.waitingBytes += size;
    const isTooMuch = connection.waiting > connection.maxWaiting || connection.waitingBytes > maxWaitingBytes;
    // The budget bounds the heads of all connections: many small fields take ten times the memory of their bytes.
    if (isTooMuch || !this.#holds(connection, held)) {
      req.socket.destroy();
      return;
    }
    res.once('socket', () => {
      const turns = connection.isMerchants ? this.#merchants : this.#strangers;
      turns.add(() => {
        connection.waiting -= 1;
        connection.waitingBytes -= size;
        connection.waitingBuffers?.release(held);
        if (!req.socket.destroyed) begin();
      });
    });
  }

  /** Reserves the memory of a waiting request; false if the budget does not have it. */
  #holds(connection: ClientConnection, bytes: number): boolean {
    if (bytes === 0) return true;
    if (connection.waitingBuffers === undefined) {
      const reservation = new Reservation(this.#budgets, connection);
      connection.waitingBuffers = reservation;
      connection.socket.once('close', () => reservation.release());
    }
    if (connection.isMerchants) connection.waitingBuffers.identify('secret');
    return connection.waitingBuffers.hold(bytes);
  }
}

/** The bytes of a waiting request's body that Node may hold. */
function readAhead(req: IncomingMessage): number {
  return Math.min(maxReadAhead, statedLength(req));
}

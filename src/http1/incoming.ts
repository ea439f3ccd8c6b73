import type { Socket } from 'node:net';
import { BodyReader } from './parse/body-reader.ts';
import { HeldText } from './parse/held-text.ts';
import { ReadPace, type PaceOwner, type SuspendReason } from './read-pace.ts';
import { startReading, stopReading } from './reading.ts';
import {
  toRequestFault,
  RequestReader,
  type HeadLimits,
  type RequestFault,
  type RequestHead,
} from './parse/request-reader.ts';

/** The connection that bytes come from. */
export interface IncomingOwner extends Pick<PaceOwner, 'onSuspend' | 'onSmallPiece'> {
  readonly socket: Socket;
  readonly limits: HeadLimits;
  onHeadBegins(): void;
  /**
   * @param whole the whole body, if it has arrived; valid only during the call
   * @param fault the fault in the part of the body that has arrived; reported again when that part is read
   */
  onHead(head: RequestHead, whole: Buffer | undefined, fault: RequestFault | undefined): void;
  /** The bytes are not a request. @param text the part of an ambiguous head that was read; characters are bytes */
  onFault(fault: RequestFault, text: string): void;
  /** @param piece a piece of the body, valid only during the call; at most one for each read */
  onBody(piece: Buffer): void;
  /** The body is complete, or its bytes are not valid. Called even while the body is paused, if its last piece had already arrived. */
  onBodyEnd(fault: RequestFault | undefined): void;
  /** @returns false if the bytes may not be held; always true for a negative change */
  onHeld(change: number): boolean;
  /** Called when too many bytes are held or discarded. */
  destroy(): void;
  /** Called when one of the owner's methods has thrown in a later turn. */
  fail(error: unknown): void;
}

/** A queue that calls back later. */
export interface Queue {
  /** @returns a function that withdraws `start` */
  add(start: () => void): () => void;
}

/** Calls back in the next turn of the event loop. */
export const nextTurn: Queue = {
  add: (start) => {
    const immediate = setImmediate(start);
    return () => clearImmediate(immediate);
  },
};

/** How many bytes are held while an exchange is open. When this many are held, nothing more is read, and TCP makes the client wait. */
const maxHeld = 16_384;

/**
 * How many chunk lines from one client are read in one turn. That takes tens of microseconds. 64 KiB can contain 21,800 chunk lines, and
 * every connection may send that many.
 */
export const maxLines = 2_000;

/** Maximum number of bytes that are discarded on a connection that is ending. */
const maxDiscarded = 67_108_864;

export const nothing: Buffer = Buffer.alloc(0);

/** The bytes from `at` on. They are copied if a view would keep much more memory alive than they need. */
function remainder(bytes: Buffer, at: number): Buffer {
  const rest = bytes.subarray(at);
  if (rest.length === 0) return nothing;
  return 2 * rest.length >= bytes.buffer.byteLength ? rest : appended(nothing, rest);
}

/** Appends to `held`, in its memory if there is room, so that each byte is copied at most a few times, however the bytes are split. */
export function appended(held: Buffer, bytes: Buffer): Buffer {
  const length = held.length + bytes.length;
  const room = held.buffer.byteLength - held.byteOffset;
  const both =
    length <= room
      ? Buffer.from(held.buffer, held.byteOffset, length)
      : Buffer.allocUnsafeSlow(Math.max(length, 2 * held.length)).subarray(0, length);
  if (length > room) both.set(held);
  both.set(bytes, held.length);
  return both;
}

/**
 * What the next bytes belong to. `unread`: a body that nobody has asked for. `next`: a request that must wait for the response to the
 * previous request. `discarded`: nothing, so they are ignored.
 */
type State = 'head' | 'unread' | 'body' | 'next' | 'discarded';

/**
 * Reads the bytes from one client. After a head, only its body is read, once `readBody` is called. All other bytes are held until
 * `expectHead` is called.
 */
export class Incoming implements PaceOwner {
  readonly #owner: IncomingOwner;
  readonly #text = new HeldText();
  readonly #reader = new RequestReader(this.#text);
  readonly #body = new BodyReader(this.#text);
  #state: State = 'head';
  /** Whether reading the expected bytes is paused. */
  #paused = false;
  /** Whether reading from the socket is stopped. */
  #stopped = false;
  readonly #pace = new ReadPace(this);
  /** The bytes that wait to be read, in memory of their own. Up to half of that memory may be unused. */
  #held: Buffer = nothing;
  #charged = 0;
  /** Whether the held bytes are scheduled to be read in a later turn. */
  #deferred = false;
  /** Leaves the queue in which the client waits for its next head to be read. */
  #leaveQueue = (): void => {};
  #discarded = 0;

  constructor(owner: IncomingOwner) {
    this.#owner = owner;
  }

  /** Whether no bytes are held, and no byte of the next head has arrived. */
  get isEmpty(): boolean {
    return this.#held.length === 0 && !this.#reader.hasStarted;
  }

  /** @param bytes may be overwritten after the call, because all bytes that are kept are copied */
  receive(bytes: Buffer): void {
    this.#pace.count(bytes.length);
    // After many small pieces, all further pieces are held, so that they are joined into one.
    const isHeld = this.#held.length > 0 || (this.#pace.merges && this.#state !== 'discarded');
    const at = isHeld ? 0 : this.#process(bytes);
    if (at < bytes.length) this.#held = appended(this.#held, bytes.subarray(at));
    this.#readOn();
    this.#charge();
  }

  /** Expects the next head. @param queue the queue in which the client waits before anything is read */
  expectHead(queue?: Queue): void {
    this.#paused = queue !== undefined;
    if (queue === undefined) this.#state = 'head';
    else this.#leaveQueue = queue.add(() => this.expectHead());
    this.#readOn();
  }

  /** Reads the body from now on; has no effect if the body is complete. Nothing is reported before this method returns. */
  readBody(): void {
    if (this.#state === 'unread') this.#state = 'body';
    this.resume();
  }

  pause(): void {
    this.#paused = this.#state === 'body';
    this.#readOn();
  }

  resume(): void {
    this.#paused = false;
    this.#readOn();
  }

  /** Reads nothing until the client's turn comes, because other clients have caused too much work. */
  suspend(): void {
    this.#pace.suspend('heldUp');
  }

  onSuspend(resume: () => void, reason: SuspendReason): void {
    this.#owner.onSuspend(resume, reason);
  }

  onSmallPiece(nth: number): void {
    this.#owner.onSmallPiece?.(nth);
  }

  onPace(): void {
    this.#readOn();
  }

  /** Ignores all bytes from now on, including those that are held. */
  discard(): void {
    this.#state = 'discarded';
    this.#paused = false;
    // Otherwise, clients that leave while they wait could fill the queue without limit.
    this.#leaveQueue();
    this.#text.clear();
    this.#held = nothing;
    this.#readOn();
    this.#charge();
  }

  /** Returns all held bytes. The connection receives nothing more, and the socket's new owner decides how the socket is read. */
  take(): Buffer {
    const held = this.#held;
    // End any suspension now. If it ended later, it would start reading the socket, even though the socket's new owner may have stopped
    // reading it.
    this.#pace.end();
    this.discard();
    return held;
  }

  /** Reads at most a head and a body. @returns how many bytes were used */
  #process(bytes: Buffer): number {
    let at = this.#state === 'head' ? this.#readHead(bytes) : 0;
    if (this.#state === 'body' && !this.#paused && at < bytes.length) at = this.#readBody(bytes, at);
    if (this.#state !== 'discarded') return at;
    this.#discarded += bytes.length - at;
    if (this.#discarded > maxDiscarded) this.#owner.destroy();
    return bytes.length;
  }

  /** Schedules held bytes to be read in a later turn, so that one client cannot occupy this turn. Stops or starts reading the socket. */
  #readOn(): void {
    const isRead = this.#state === 'head' || (this.#state === 'body' && !this.#paused);
    if (isRead && this.#held.length > 0 && !this.#deferred && !this.#pace.merges) {
      this.#deferred = true;
      setImmediate(() => this.#readHeld());
    }
    const stops = this.#paused || this.#pace.isSuspended || this.#held.length >= maxHeld;
    if (stops === this.#stopped) return;
    this.#stopped = stops;
    if (stops) stopReading(this.#owner.socket);
    else startReading(this.#owner.socket);
  }

  #readHeld(): void {
    this.#deferred = false;
    const held = this.#held;
    // The held bytes may have been discarded, or handed over with the socket.
    if (held.length === 0) return;
    this.#held = nothing;
    try {
      this.#held = remainder(held, this.#process(held));
      this.#readOn();
      this.#charge();
    } catch (error) {
      this.#owner.fail(error);
    }
  }

  /** Reports how many bytes are held. At most one read of the socket has been copied before the report. */
  #charge(held = this.#held.length + this.#text.length): void {
    const change = held - this.#charged;
    if (change === 0) return;
    if (this.#owner.onHeld(change)) this.#charged = held;
    else this.#owner.destroy();
  }

  #readHead(bytes: Buffer): number {
    const hadStarted = this.#reader.hasStarted;
    const head = this.#reader.read(bytes, this.#owner.limits);
    if (typeof head === 'object') return this.#onHead(head, bytes, this.#reader.next);
    if (head !== undefined) {
      this.discard();
      this.#owner.onFault(head, this.#reader.faulty);
    } else if (!hadStarted && this.#reader.hasStarted) {
      this.#owner.onHeadBegins();
    }
    return bytes.length;
  }

  #onHead(head: RequestHead, bytes: Buffer, at: number): number {
    let next = at;
    let whole: Buffer | undefined = nothing;
    let fault: RequestFault | undefined;
    if (head.framing.type !== 'none') {
      this.#expectBody(head);
      const outcome = this.#body.read(bytes, at, maxLines);
      fault = toRequestFault(outcome);
      whole = outcome === 'end' ? (this.#body.piece ?? nothing) : undefined;
      if (outcome === 'end') next = this.#body.next;
      // Once the body is asked for, it is read again from its beginning.
      else this.#expectBody(head);
    }
    this.#state = whole === undefined ? 'unread' : 'next';
    this.#pace.forgive();
    // The head itself is no longer held. Only bytes that follow the head may still be held.
    this.#charge(Math.min(this.#charged, bytes.length - next));
    this.#owner.onHead(head, whole, fault);
    return next;
  }

  #expectBody({ framing, size }: RequestHead): void {
    this.#body.begin(framing, Math.max(0, this.#owner.limits.maxHeadSize - size));
  }

  #readBody(bytes: Buffer, at: number): number {
    const outcome = this.#body.read(bytes, at, maxLines);
    const { piece, next } = this.#body;
    if (piece !== undefined) this.#owner.onBody(piece);
    // In `onBody`, the owner may have discarded the rest of the body.
    if (outcome === 'more' || this.#state !== 'body') return next;
    const fault = toRequestFault(outcome);
    if (fault === undefined) {
      this.#state = 'next';
      this.resume();
    } else {
      this.discard();
    }
    this.#owner.onBodyEnd(fault);
    return next;
  }
}

import type { Socket } from 'node:net';
import { BodyReader } from './body-reader.ts';
import { concatUnpooled, HeldText } from './held-text.ts';
import { faultOf, RequestReader, type HeadLimits, type RequestFault, type RequestHead } from './request-reader.ts';

/** Receives the body of a request. After `onEnd` or `onFault` nothing more is called, nor after the end of the response. */
export interface BodySink {
  /** @param piece a view that is valid during the call only: whatever outlives it must be copied. One for each read at most */
  onData(piece: Buffer): void;
  /** The body is complete. Called even while the body is paused, if its last piece came before. */
  onEnd(): void;
  /** The bytes are no body. The response, if it has not ended, ends the connection. */
  onFault(fault: RequestFault): void;
}

/** The connection that bytes come from. */
export interface IncomingOwner {
  readonly socket: Socket;
  readonly limits: HeadLimits;
  onHeadBegins(): void;
  /**
   * @param whole the whole body, if it has arrived; valid during the call
   * @param fault in the part of the body that has arrived; its sink, if it gets one, hears of it too
   */
  onHead(head: RequestHead, whole: Buffer | undefined, fault: RequestFault | undefined): void;
  /** The bytes are no request. @param text what was read of an ambiguous head; characters are bytes */
  onFault(fault: RequestFault, text: string): void;
  onBodyBytes(length: number): void;
  /** Called before the sink hears of it. */
  onBodyEnd(): void;
  onBodyFault(): void;
  /** @returns false to hold nothing */
  onHeld(change: number): boolean;
  defer(read: () => void): void;
  /** Too much is held or discarded. */
  onExcess(): void;
  /** One of the owner's methods, or the sink's, has thrown in a later turn. */
  fail(error: unknown): void;
}

/** Bytes that are held while an exchange is open. Beyond, nothing is read, and TCP holds the client up. */
const maxHeld = 16_384;

/** Bytes that are discarded of a connection that ends. */
const maxDiscarded = 67_108_864;

const nothing = Buffer.alloc(0);

/** The use of the next bytes. `body`: they belong to it; without a sink it is not used. `discarded`: they have no meaning. */
type State = 'head' | 'held' | 'body' | 'discarded';

/** The bytes of one client. Behind a head only its body is read, if asked for, until `expectHead`: other bytes are held. */
export class Incoming {
  readonly #owner: IncomingOwner;
  readonly #text = new HeldText();
  readonly #reader = new RequestReader(this.#text);
  readonly #body = new BodyReader(this.#text);
  #state: State = 'head';
  #sink: BodySink | undefined;
  /** Whether the body of the last head is complete, and whether it is for `#sink` to get at once. */
  #bodyComplete = true;
  #offered = false;
  #paused = false;
  #held: Buffer = nothing;
  #charged = 0;
  /** Whether held bytes are read in a later turn. */
  #deferred = false;
  #discarded = 0;

  constructor(owner: IncomingOwner) {
    this.#owner = owner;
  }

  /** Whether no byte waits, and none of a head has arrived. */
  get isEmpty(): boolean {
    return this.#held.length === 0 && !this.#reader.hasStarted;
  }

  /** @param bytes may be overwritten after the call: all that is kept is copied */
  receive(bytes: Buffer): void {
    if (this.#held.length > 0 || this.#deferred) this.#hold(bytes);
    else this.#process(bytes, false);
    this.#charge();
  }

  /** Expects the next head. If bytes of it are held, they are read in a later turn. */
  expectHead(): void {
    this.#state = 'head';
    this.#sink = undefined;
    this.#paused = false;
    if (this.#held.length > 0) this.#defer();
    this.#readOn();
  }

  /**
   * Has the body read. The sink is called later; within `onHead`, after that.
   *
   * @throws if the body was complete with its head, and is gone
   */
  readBody(sink: BodySink): void {
    if (this.#bodyComplete && !this.#offered) throw new Error('the body was to be read with its head');
    this.#sink = sink;
    if (!this.#bodyComplete) this.#readBodyOn();
  }

  pause(): void {
    if (this.#bodyComplete) return;
    this.#paused = true;
    if (this.#state === 'body') this.#state = 'held';
    this.#owner.socket.pause();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    if (this.#sink !== undefined) this.#readBodyOn();
  }

  /** Reads the rest of the body for nothing. */
  dropBody(): void {
    this.#sink = undefined;
    this.#paused = false;
    if (!this.#bodyComplete) this.#readBodyOn();
  }

  /** No byte has a meaning any more. */
  discard(): void {
    this.#state = 'discarded';
    this.#sink = undefined;
    this.#paused = false;
    this.#text.clear();
    this.#held = nothing;
    this.#readOn();
    this.#charge();
  }

  /** Takes all held bytes; nothing more is received. */
  take(): Buffer {
    const held = this.#held;
    this.discard();
    return held;
  }

  /** @param isOwn whether the bytes are held ones, which need not be copied again */
  #process(bytes: Buffer, isOwn: boolean): void {
    let at = 0;
    let heads = 0;
    while (at < bytes.length) {
      if (this.#state === 'head' && heads === 0) {
        heads = 1;
        at = this.#readHead(bytes, at);
      } else if (this.#state === 'body') {
        at = this.#readBody(bytes, at);
      } else if (this.#state === 'discarded') {
        this.#countDiscarded(bytes.length - at);
        return;
      } else {
        if (isOwn) this.#held = bytes.subarray(at);
        else this.#hold(at === 0 ? bytes : bytes.subarray(at));
        if (this.#state === 'head') this.#defer();
        return;
      }
    }
  }

  #hold(bytes: Buffer): void {
    // `concat` would take it from Node's pool, of which a few bytes keep 64 KiB.
    this.#held = concatUnpooled(this.#held, bytes);
    if (this.#held.length >= maxHeld) this.#owner.socket.pause();
  }

  #countDiscarded(length: number): void {
    this.#discarded += length;
    if (this.#discarded > maxDiscarded) this.#owner.onExcess();
  }

  /** Reports what is held. One read of the socket at most was copied before. */
  #charge(): void {
    const held = this.#held.length + this.#text.length;
    const change = held - this.#charged;
    if (change === 0) return;
    if (this.#owner.onHeld(change) || change < 0) this.#charged = held;
    else this.#owner.onExcess();
  }

  /** A head that follows another one in the same bytes: a later turn reads it, so that one client cannot occupy this one. */
  #defer(): void {
    if (this.#deferred) return;
    this.#deferred = true;
    this.#owner.defer(() => {
      this.#deferred = false;
      this.#readHeld('head');
    });
  }

  #readHead(bytes: Buffer, at: number): number {
    const hadStarted = this.#reader.hasStarted;
    const head = this.#reader.read(bytes, at, this.#owner.limits);
    if (head === undefined) {
      if (!hadStarted && this.#reader.hasStarted) this.#owner.onHeadBegins();
      return bytes.length;
    }
    if (typeof head === 'string') {
      this.discard();
      this.#owner.onFault(head, this.#reader.faulty);
      return bytes.length;
    }
    return this.#onHead(head, bytes, this.#reader.next);
  }

  #onHead(head: RequestHead, bytes: Buffer, at: number): number {
    let next = at;
    let whole: Buffer | undefined = nothing;
    let fault: RequestFault | undefined;
    if (head.framing.type !== 'none') {
      this.#expectBody(head);
      const outcome = at < bytes.length ? this.#body.read(bytes, at) : 'more';
      fault = faultOf(outcome);
      whole = outcome === 'end' ? (this.#body.piece ?? nothing) : undefined;
      if (outcome === 'end') next = this.#body.next;
      // It is read from its beginning once it has a sink.
      else this.#expectBody(head);
    }
    this.#state = 'held';
    this.#bodyComplete = whole !== undefined;
    this.#offered = true;
    this.#owner.onHead(head, whole, fault);
    this.#offered = false;
    if (whole !== undefined && this.#sink !== undefined) this.#deliver(this.#sink, whole);
    return next;
  }

  #expectBody({ framing, size }: RequestHead): void {
    this.#body.begin(framing, Math.max(0, this.#owner.limits.maxHeadSize - size));
  }

  #deliver(sink: BodySink, whole: Buffer): void {
    if (whole.length > 0) sink.onData(whole);
    if (this.#sink !== sink) return;
    this.#sink = undefined;
    sink.onEnd();
  }

  #readBody(bytes: Buffer, at: number): number {
    const sink = this.#sink;
    const outcome = this.#body.read(bytes, at);
    const { piece, next } = this.#body;
    if (piece !== undefined) {
      this.#owner.onBodyBytes(piece.length);
      sink?.onData(piece);
      // The sink may have ended everything.
      if (this.#state === 'discarded') return next;
    }
    if (outcome === 'more') return next;
    const fault = faultOf(outcome);
    const stillWanted = this.#sink === sink;
    this.#sink = undefined;
    if (fault === undefined) {
      this.#state = 'held';
      this.#bodyComplete = true;
      this.#paused = false;
      this.#readOn();
      this.#owner.onBodyEnd();
      if (stillWanted) sink?.onEnd();
    } else {
      this.discard();
      this.#owner.onBodyFault();
      if (stillWanted) sink?.onFault(fault);
    }
    return next;
  }

  #readBodyOn(): void {
    if (this.#state !== 'held' || this.#paused) return;
    this.#state = 'body';
    if (this.#held.length === 0) this.#readOn();
    else if (!this.#offered) process.nextTick(() => this.#readHeld('body'));
  }

  /** Reads the bytes that were held until now, unless something else than `expected` has become of them. */
  #readHeld(expected: State): void {
    if (this.#state !== expected) return;
    const held = this.#held;
    this.#held = nothing;
    try {
      this.#process(held, true);
      this.#readOn();
      this.#charge();
    } catch (error) {
      this.#owner.fail(error);
    }
  }

  #readOn(): void {
    const { socket } = this.#owner;
    if (!this.#paused && this.#held.length < maxHeld && socket.isPaused()) socket.resume();
  }
}

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { RefusalCode } from '../errors.ts';
import { LinkedList, type Linked } from './linked-list.ts';

/** Pipelined requests that may wait on a connection that has carried a secret key. */
const maxWaitingOfMerchant = 100;

/** The same without a secret key: each costs memory as soon as it is read, and legitimate clients do not need more. */
const maxWaitingOfStranger = 10;

/** The part of a reply that its connection needs. */
interface CurrentReply {
  readonly request: { readonly raw: IncomingMessage };
  readonly raw: ServerResponse;
  /** Node's parser rejected the bytes of the request's body. */
  bodyFails(code: RefusalCode): void;
}

/** Bytes that are charged to a budget. */
interface Held {
  identify(claimant: 'secret'): void;
  hold(bytes: number): boolean;
  release(bytes: number): void;
}

/** The gateway's state of a client's connection. */
export class ClientConnection implements Linked<ClientConnection> {
  /** Its neighbours among the connections that may be evicted. */
  previous: ClientConnection | undefined;
  next: ClientConnection | undefined;

  socket: Socket;
  /** The last response that is not complete. */
  current: CurrentReply | undefined;
  /** Waiting pipelined requests. Their heads in total may be as large as one head. */
  waiting = 0;
  waitingBytes = 0;
  /** Whether a request that is not pipelined waits for its turn. */
  isFirstWaiting = false;
  /** The memory of waiting requests: their heads, and what may arrive of their bodies before their turn. */
  waitingBuffers: Held | undefined;
  /** Whether a fault follows a request whose response is not complete. */
  faulty = false;
  /** Whether it has carried a known key, and whether a secret one. */
  known = false;
  isMerchants = false;
  closed = false;
  readonly #evictable: LinkedList<ClientConnection> | undefined;

  constructor(socket: Socket, evictable?: LinkedList<ClientConnection>) {
    this.socket = socket;
    this.#evictable = evictable;
    this.allowEviction();
  }

  /** How many pipelined requests may wait. */
  get maxWaiting(): number {
    return this.isMerchants ? maxWaitingOfMerchant : maxWaitingOfStranger;
  }

  /** Whether a request waits for its turn. */
  get hasWaiting(): boolean {
    return this.isFirstWaiting || this.waiting > 0;
  }

  /** Records that it has carried a known key. */
  identify(isSecret: boolean): void {
    this.known = true;
    if (isSecret) this.isMerchants = true;
    this.preventEviction();
  }

  /** From now on the connection may be closed to make room for a new one, unless it has carried a known key. */
  allowEviction(): void {
    this.preventEviction();
    if (!this.known && !this.closed) this.#evictable?.add(this);
  }

  /** The connection must not be closed to make room, because its request has a slot or a known key. */
  preventEviction(): void {
    this.#evictable?.remove(this);
  }
}

/** The state is on the socket: a map with an entry for each connection would promote them all (see `LinkedList`). */
const state = Symbol('client connection');

type StatefulSocket = Socket & { [state]?: ClientConnection };

/** The state of a client's connection. */
export function connectionOf(socket: StatefulSocket): ClientConnection {
  return (socket[state] ??= new ClientConnection(socket));
}

/** The open connections of clients, up to a limit. */
export class ClientConnections {
  /** The connections that never carried a known key and have no request with a slot, longest idle first. */
  readonly #evictable = new LinkedList<ClientConnection>();
  /** TCP connections whose TLS handshake is not complete, by the client's address and port. */
  readonly #handshaking = new Map<string, ClientConnection>();
  size = 0;
  limit: number;

  constructor(limit: number) {
    this.limit = limit;
  }

  /** Adds a new connection. Beyond the limit, the first evictable connection is closed, or the new one if there is none. */
  open(socket: StatefulSocket, handshakes: boolean): void {
    const connection = new ClientConnection(socket, this.#evictable);
    socket[state] = connection;
    this.size += 1;
    const address = addressOf(socket);
    socket.once('close', () => {
      this.#forget(connection);
      if (this.#handshaking.get(address) === connection) this.#handshaking.delete(address);
    });
    if (handshakes) this.#handshaking.set(address, connection);
    if (this.size <= this.limit) return;
    const evicted = this.#evictable.first ?? connection;
    this.#forget(evicted);
    evicted.socket.destroy();
  }

  /** The TLS handshake of a connection is complete: requests come on this socket. */
  secure(socket: StatefulSocket): void {
    const address = addressOf(socket);
    const connection = this.#handshaking.get(address);
    this.#handshaking.delete(address);
    if (connection === undefined) return;
    connection.socket = socket;
    socket[state] = connection;
  }

  /**
   * Closes connections whose TLS handshake is not complete. Node's `closeAllConnections` leaves them open, and a later
   * request on one of them would be forwarded without waiting for the response.
   */
  stop(): void {
    for (const { socket } of this.#handshaking.values()) socket.destroy();
  }

  #forget(connection: ClientConnection): void {
    if (connection.closed) return;
    connection.closed = true;
    connection.preventEviction();
    this.size -= 1;
  }
}

function addressOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

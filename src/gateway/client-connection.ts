import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { RefusalCode } from '../errors.ts';
import { LinkedList, type Linked } from './linked-list.ts';

/** What a connection needs to know of its response. */
interface CurrentReply {
  readonly request: { readonly raw: IncomingMessage };
  readonly raw: ServerResponse;
  /** Something that is no part of a body came in the place of its body. */
  bodyFails(code: RefusalCode): void;
}

/** Bytes that are charged to a budget. */
interface Held {
  hold(bytes: number): boolean;
  release(): void;
}

/** What the gateway knows of a client's connection. */
export class ClientConnection implements Linked<ClientConnection> {
  /** Its neighbours among the connections that may be closed for a new one. */
  previous: ClientConnection | undefined;
  next: ClientConnection | undefined;

  socket: Socket;
  /** The last response that is not complete. */
  current: CurrentReply | undefined;
  /** Pipelined requests that wait for their turn, and the bytes of their heads. */
  waiting = 0;
  waitingBytes = 0;
  /** The bytes of their bodies that may come before their turn. */
  waitingBodies: Held | undefined;
  /** Whether something that is no request stands behind one whose response is not complete. */
  faulty = false;
  /** Whether a request came on it with a key that exists. */
  known = false;
  closed = false;
  readonly #closable: LinkedList<ClientConnection> | undefined;

  constructor(socket: Socket, closable?: LinkedList<ClientConnection>) {
    this.socket = socket;
    this.#closable = closable;
    this.rest();
  }

  /** It is idle from now on, and may be closed for a new one, unless it has carried a known key. */
  rest(): void {
    this.keep();
    if (!this.known && !this.closed) this.#closable?.add(this);
  }

  /** Its request occupies a slot, or came with a known key: it is not to be closed for a new one. */
  keep(): void {
    this.#closable?.remove(this);
  }
}

/** On the socket itself: a map would get an entry for each connection, and promote them all (see `LinkedList`). */
const kept = Symbol('client connection');

type KeepingSocket = Socket & { [kept]?: ClientConnection };

/** The state of a client's connection. */
export function connectionOf(socket: KeepingSocket): ClientConnection {
  return (socket[kept] ??= new ClientConnection(socket));
}

/** The open connections of clients, so many at most. */
export class ClientConnections {
  /** Those that never carried a known key and have no request that occupies a slot, the one idle longest first. */
  readonly #closable = new LinkedList<ClientConnection>();
  /** TCP connections whose TLS handshake is not complete, by the address at the other end. */
  readonly #handshaking = new Map<string, ClientConnection>();
  #size = 0;
  limit: number;

  constructor(limit: number) {
    this.limit = limit;
  }

  /** Takes a new connection in; at the limit another one is closed for it, or itself if there is none. */
  open(socket: KeepingSocket, handshakes: boolean): void {
    const connection = new ClientConnection(socket, this.#closable);
    socket[kept] = connection;
    this.#size += 1;
    const address = addressOf(socket);
    socket.once('close', () => {
      this.#forget(connection);
      if (this.#handshaking.get(address) === connection) this.#handshaking.delete(address);
    });
    if (handshakes) this.#handshaking.set(address, connection);
    if (this.#size <= this.limit) return;
    const closed = this.#closable.first ?? connection;
    this.#forget(closed);
    closed.socket.destroy();
  }

  /** The TLS handshake of a connection is complete: requests come on this socket. */
  secure(socket: KeepingSocket): void {
    const address = addressOf(socket);
    const connection = this.#handshaking.get(address);
    this.#handshaking.delete(address);
    if (connection === undefined) return;
    connection.socket = socket;
    socket[kept] = connection;
  }

  #forget(connection: ClientConnection): void {
    if (connection.closed) return;
    connection.closed = true;
    connection.keep();
    this.#size -= 1;
  }
}

function addressOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

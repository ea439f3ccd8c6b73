import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import type { SecureContextOptions, Server as TlsServer, TlsOptions, TLSSocket } from 'node:tls';
import { formatEndpoints } from '../connection-limit.ts';
import { listen, type ListenAddress } from '../http.ts';
import { LinkedList } from '../linked-list.ts';
import { onHandshakeFailures, tls, type OnHandshakeFailure } from '../tls.ts';
import { HandshakeReads } from './handshake-reads.ts';
import { CertificateTurns, certificateHandshakeTime } from './certificate-turns.ts';
import type { ConnectionHandler, ConnectionLimits } from './connection-handler.ts';
import { ServerConnection, type ConnectionOwner } from './connection.ts';
import { dateLines } from './date-line.ts';
import { whenHandshakeBegins } from './hello.ts';
import { nextTurn, type Queue } from './incoming.ts';
import { readAsStream, readInto, readLength } from './reading.ts';
import { PieceBuffers } from './piece-buffers.ts';
import { limitTlsWork, maxHandshakeSize } from './tls-work.ts';
import type { EpochMs, MonotonicMs } from '../times.ts';

export interface ListenerOptions {
  readonly limits: ConnectionLimits;
  /** The listener's certificate, and whether clients must present one; undefined if TLS is off. */
  readonly tls: TlsOptions | undefined;
  /** The clock for the `Date` field. */
  readonly clock: () => EpochMs;
  /** The queue in which TLS handshakes wait before they begin. By default, they wait until the next turn of the event loop. */
  readonly handshakes?: Queue;
  /** The queue for clients that have sent only part of their first TLS record. By default, they wait until the next turn. */
  readonly hellos?: Queue;
  /** Called for each TLS handshake that fails because of the client. */
  readonly onHandshakeFailure?: OnHandshakeFailure;
}

/** Called for each TCP connection before any of its bytes are held; with TLS, before the handshake. @returns undefined to refuse it */
export type AcceptConnection = (connection: ServerConnection) => ConnectionHandler | undefined;

/** A socket refers to its connection by this key. A map of all connections would promote them to the old generation (see `LinkedList`). */
const connectionKey = Symbol('connection');

type ConnectedSocket = Socket & { [connectionKey]?: ServerConnection };

/**
 * How many sockets listen on the port. libuv accepts one connection per socket in a turn of the event loop. With one socket, a merchant's
 * connection would wait in the kernel for one turn per anonymous connection ahead of it. Sockets can share a port only on Linux.
 */
const sockets = process.platform === 'linux' ? 64 : 1;

/** Together, the sockets may have as many connections waiting in the kernel as eight ordinary sockets. */
const shared = sockets > 1 ? { backlog: 512 } : undefined;

/** Milliseconds between two checks of the deadlines. */
const sweepInterval = 250;

/** Maximum number of expired connections that are ended in a turn of the event loop. Thousands of deadlines may pass at the same moment. */
const expiredInTurn = 64;

/** Accepts connections, on TCP or TLS, and watches their deadlines. */
export class Listener implements ConnectionOwner {
  /** Receives the connections from all sockets. */
  readonly server: Server;
  readonly #others: readonly Server[];
  limits: ConnectionLimits;
  isClosing = false;
  readonly pieces = new PieceBuffers();
  readonly #accept: AcceptConnection;
  readonly #handshakeFailed: OnHandshakeFailure;
  readonly #dateLine: () => string;
  readonly #tlsServer: TlsServer | undefined;
  /** Undefined if clients need no certificate. */
  readonly #certificateTurns: CertificateTurns | undefined;
  /** The read buffer. All connections share it, because bytes that outlive the call that receives them are copied. */
  readonly #memory = Buffer.allocUnsafeSlow(readLength);
  readonly #connections = new LinkedList<ServerConnection>();
  readonly #sweep: NodeJS.Timeout;
  /** Connections with an incomplete TLS handshake, by both endpoints, because one client port may connect to several local addresses. */
  readonly #handshaking = new Map<string, ServerConnection>();
  readonly #handshakeReads = new HandshakeReads();
  readonly #handshakes: Queue;
  readonly #hellos: Queue;

  constructor(options: ListenerOptions, accept: AcceptConnection) {
    this.limits = options.limits;
    this.#accept = accept;
    this.#handshakeFailed = options.onHandshakeFailure ?? (() => {});
    this.#dateLine = dateLines(options.clock);
    this.#handshakes = options.handshakes ?? nextTurn;
    this.#hellos = options.hellos ?? nextTurn;
    this.#tlsServer = options.tls === undefined ? undefined : this.#createTlsServer(options.tls, options.clock);
    if (this.#tlsServer !== undefined && options.tls?.requestCert === true)
      this.#certificateTurns = new CertificateTurns(this.#tlsServer);
    this.server = createServer(socketOptions, (socket) => this.#open(socket));
    this.#others = Array.from({ length: sockets - 1 }, () => {
      return createServer(socketOptions, (socket) => void this.server.emit('connection', socket));
    });
    // If the process was suspended, timers run first. With `setImmediate`, bytes that have arrived are read before deadlines are checked.
    this.#sweep = setInterval(() => setImmediate(() => this.#expire()), sweepInterval).unref();
  }

  /** Like `listen` in http.ts. */
  async listen(address: ListenAddress): Promise<AddressInfo> {
    // Another process that listens on the same port would get some of the connections, so the port must be free.
    if (address.port !== 0) {
      const probe = createServer((socket) => socket.destroy());
      await listen(probe, address);
      await once(probe.close(), 'close');
    }
    const bound = await listen(this.server, address, shared);
    for (const other of this.#others) await listen(other, { ...address, port: bound.port }, shared);
    return bound;
  }

  #createTlsServer(options: TlsOptions, clock: ListenerOptions['clock']): TlsServer {
    // Node's timeout is not needed, because the sweep limits how long handshakes take.
    const handshakeTimeout = 2 ** 31 - 1;
    const server = tls().createServer({ ...options, ...socketOptions, ALPNProtocols: ['http/1.1'], handshakeTimeout });
    server.on('secureConnection', (socket) => this.#secure(socket));
    onHandshakeFailures(server, this.#handshakeFailed, clock);
    const crowded = (socket: ConnectedSocket): void => {
      const connection = socket[connectionKey] ?? this.#handshaking.get(formatEndpoints(socket));
      connection?.handler?.onCrowd?.();
    };
    const exceeded = (socket: ConnectedSocket): void => {
      socket[connectionKey]?.exceed();
      crowded(socket);
    };
    limitTlsWork(server, { exceeded, crowded, derived: (socket) => this.#onDerived(socket) });
    return server;
  }

  /** The number of open connections. */
  get size(): number {
    return this.#connections.size;
  }

  get dateLine(): string {
    return this.#dateLine();
  }

  /** Applies limits to everything that begins from now on. Shorter timeouts also apply to clients that the listener is waiting for. */
  configure(limits: ConnectionLimits): void {
    this.limits = limits;
    for (const connection of this.#connections) connection.hasten();
  }

  /** Uses a different certificate in handshakes that begin from now on. Has no effect without TLS. */
  setSecureContext(context: SecureContextOptions): void {
    this.#tlsServer?.setSecureContext(context);
  }

  /** Accepts no more connections. Closes each open connection after its response or, if it is idle, at once. */
  close(): void {
    this.isClosing = true;
    for (const server of [this.server, ...this.#others]) server.close();
    for (const connection of this.#connections) if (connection.isIdle) connection.destroy();
  }

  /** Closes each connection after the response in progress or, if there is none, at once, even if its handshake is not complete. */
  retireConnections(): void {
    for (const connection of this.#connections) connection.retire();
  }

  /** Closes all connections, including those that were handed over. */
  closeAll(): void {
    for (const connection of this.#connections) connection.destroy();
  }

  forget(connection: ServerConnection): void {
    this.#connections.remove(connection);
  }

  suspendHandshake(connection: ServerConnection): void {
    const { socket, handler } = connection;
    // Before the handshake begins, the connection is read only in a turn of its own.
    if (handler === undefined || !this.#handshakeReads.suspend(socket)) return;
    handler.onSuspend(() => this.#handshakeReads.resume(socket), 'heldUp');
  }

  release({ socket }: ServerConnection): void {
    readAsStream(socket);
    socket.off('data', onData).off('end', onEnd);
  }

  #open(socket: Socket): void {
    const connection = new ServerConnection(socket, this.#tlsServer !== undefined, this);
    const handler = this.#accept(connection);
    if (handler === undefined) {
      socket.destroy();
      return;
    }
    connection.handler = handler;
    this.#connections.add(connection);
    if (this.#tlsServer !== undefined) this.#awaitHandshake(socket, connection);
    else this.#attach(socket, connection);
  }

  #awaitHandshake(socket: Socket, connection: ServerConnection): void {
    const ends = formatEndpoints(socket);
    this.#handshaking.set(ends, connection);
    const [hellos, turns, failed] = [this.#hellos, this.#certificateTurns, this.#handshakeFailed];
    const add = (start: () => void): (() => void) => {
      const { deadline } = connection;
      if (turns !== undefined) connection.deadline = Math.min(deadline, performance.now() + certificateHandshakeTime);
      return this.#handshakes.add(start);
    };
    whenHandshakeBegins(socket, { hellos, turns, handshakes: { add }, failed }, () => {
      this.#handshakeReads.begin(socket);
      this.#tlsServer?.emit('connection', socket);
    });
    socket.on('error', () => connection.socket.destroy());
    socket.once('close', () => {
      if (this.#handshaking.get(ends) === connection) this.#handshaking.delete(ends);
      this.#handshakeReads.end(socket);
      connection.onSocketClose();
    });
  }

  #secure(socket: TLSSocket): void {
    const ends = formatEndpoints(socket);
    const connection = this.#handshaking.get(ends);
    this.#handshaking.delete(ends);
    if (connection === undefined) return void socket.destroy();
    this.#handshakeReads.end(connection.socket);
    this.#attach(socket, connection);
    connection.secure(socket);
  }

  #attach(socket: Socket, connection: ServerConnection): void {
    (socket as ConnectedSocket)[connectionKey] = connection;
    // With TLS, Node delivers the plaintext in buffers of its own, so only plain sockets are read into the shared memory.
    if (this.#tlsServer !== undefined || !readInto(socket, this.#memory, onRead)) socket.on('data', onData);
    socket.on('end', onEnd).on('error', onError).on('close', onClose);
  }

  #expire(): void {
    if (this.isClosing && this.size === 0) clearInterval(this.#sweep);
    // Holds up nobody, because OpenSSL may not have read these bytes yet, and thousands of clients may have sent too many.
    for (const each of this.#handshaking.values()) if (each.socket.bytesRead > maxHandshakeSize) each.exceed();
    this.#expireNext(performance.now());
  }

  #expireNext(now: MonotonicMs): void {
    let expired = 0;
    for (const connection of this.#connections) {
      if (connection.deadline > now) continue;
      if (expired === expiredInTurn) return void setImmediate(() => this.#expireNext(now));
      expired += 1;
      const { socket } = connection;
      const isHandshaking = this.#handshaking.get(formatEndpoints(socket)) === connection;
      if (isHandshaking && socket.bytesRead > 0) this.#handshakeFailed('timeout', socket.remoteAddress);
      connection.expire();
    }
  }

  #onDerived(socket: TLSSocket): void {
    const ends = formatEndpoints(socket);
    const connection = this.#handshaking.get(ends);
    // Sockets may be half open, so a client that leaves during its handshake would otherwise be counted until the deadline.
    socket.once('end', () => {
      if (connection === undefined || this.#handshaking.get(ends) !== connection) return;
      this.#handshakeFailed('client_left', connection.socket.remoteAddress);
      connection.destroy();
    });
  }
}

/** Sockets may be half open, so that a response can be sent completely even after the client has closed its side. */
const socketOptions = { allowHalfOpen: true, noDelay: true } as const;

// All connections share these functions, because five closures for each connection would take up memory.

function onRead(this: ConnectedSocket, length: number, memory: Buffer): boolean {
  this[connectionKey]?.receive(Buffer.from(memory.buffer, memory.byteOffset, length));
  return true;
}

function onData(this: ConnectedSocket, bytes: Buffer): void {
  this[connectionKey]?.receive(bytes);
}

function onEnd(this: ConnectedSocket): void {
  this[connectionKey]?.onClientEnd();
}

/** Closes the connection. If a client renegotiates too often, Node only reports an error and leaves the connection open. */
function onError(this: Socket): void {
  this.destroy();
}

function onClose(this: ConnectedSocket): void {
  this[connectionKey]?.onSocketClose();
}

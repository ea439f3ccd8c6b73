import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { formatEndpoints } from '../connection-limit.ts';
import { WaitQueue } from '../wait-queue.ts';

/** How long a handshake may take after it has begun, in milliseconds. The other clients of the network wait for it. */
export const certificateHandshakeTime = 2_000;

/**
 * How long a network waits after a failed handshake, in milliseconds for each KiB that the client has sent. Verifying one KiB takes up to
 * 13 ms, so the handshakes of a network take at most a twentieth of the time.
 */
const restPerKibibyte = 250;

/** The clients of a network. */
interface Network {
  readonly name: string;
  readonly waiting: WaitQueue;
  /** Whether a handshake has begun and is not complete. */
  isBusy: boolean;
  /** No handshake begins before this time, by `performance.now()`. */
  restsUntil: number;
  timer: NodeJS.Timeout | undefined;
}

/**
 * Queues the handshakes of a listener that requires client certificates. Anyone may send a chain of certificates that nobody has issued:
 * OpenSSL verifies all signatures of up to 100 certificates in the event loop before Node refuses the client. With slow curves, that takes
 * half a second, and Node has no option that limits the chain. The clients of a network take turns; those of other networks do not wait.
 */
export class CertificateTurns {
  readonly #networks = new Map<string, Network>();
  /** Ends the turns of handshakes that have begun, by the addresses of both ends. */
  readonly #ends = new Map<string, (rest: number) => void>();

  /** @param server the TLS server that `begin` passes the connections to */
  constructor(server: EventEmitter) {
    server.prependListener('secureConnection', (socket: TLSSocket) => this.#ends.get(formatEndpoints(socket))?.(0));
  }

  /** Calls `begin` when it is the client's turn. The turn ends with the handshake. */
  add(socket: Socket, begin: () => void): void {
    const network = this.#networkOf(socket);
    const ends = formatEndpoints(socket);
    let end: ((rest: number) => void) | undefined;
    const withdraw = network.waiting.add(() => {
      network.isBusy = true;
      end = (rest) => {
        end = undefined;
        this.#ends.delete(ends);
        network.isBusy = false;
        network.restsUntil = Math.max(network.restsUntil, performance.now() + rest);
        this.#beginNext(network);
      };
      this.#ends.set(ends, end);
      begin();
    });
    socket.once('close', () => {
      withdraw();
      end?.((socket.bytesRead / 1_024) * restPerKibibyte);
    });
    this.#beginNext(network);
  }

  #networkOf({ remoteAddress = '' }: Socket): Network {
    const name = formatNetwork(remoteAddress);
    const known = this.#networks.get(name);
    if (known !== undefined) return known;
    const network = { name, waiting: new WaitQueue(), isBusy: false, restsUntil: 0, timer: undefined };
    this.#networks.set(name, network);
    return network;
  }

  #beginNext(network: Network): void {
    const rest = network.restsUntil - performance.now();
    if (rest > 0) {
      network.timer ??= setTimeout(() => {
        network.timer = undefined;
        this.#beginNext(network);
      }, rest).unref();
      return;
    }
    if (network.isBusy) return;
    // The newest goes first, because in a flood, the clients that have waited longest have left, or leave soon.
    const begin = network.waiting.shiftNewest();
    if (begin === undefined) this.#networks.delete(network.name);
    else begin();
  }
}

/** The network of an address: for IPv4, the address itself; for IPv6, the /64 or, if that contains `::`, a larger network. */
function formatNetwork(address: string): string {
  // An IPv4 address may be mapped to IPv6.
  if (address.includes('.')) return address.slice(address.lastIndexOf(':') + 1);
  const [before = ''] = address.split('::');
  return before.split(':').slice(0, 4).join(':');
}

/** Lets a TLS server of Node's begin its handshakes in turns. A client that waits for longer than `patience` milliseconds is disconnected. */
export function beginInTurns(server: EventEmitter, patience: number): void {
  const turns = new CertificateTurns(server);
  const listeners = server.listeners('connection');
  server.removeAllListeners('connection').on('connection', (socket: Socket) => {
    const leave = (): void => void socket.destroy();
    socket.on('error', leave).setTimeout(patience, leave);
    turns.add(socket, () => {
      socket.setTimeout(0, leave);
      for (const begin of listeners) begin.call(server, socket);
    });
  });
}

import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { LRUCache } from 'lru-cache';
import { formatEndpoints } from '../connection-limit.ts';
import { canonicalAddress, networksOf } from '../networks.ts';

/** How long a handshake may take after it has begun, in milliseconds, because others wait for it. */
export const certificateHandshakeTime = 2_000;

/**
 * How long strangers wait after a failed handshake, in milliseconds for each KiB that its client has sent in reply to the listener: those of sites without a failed
 * handshake, and all others. Verifying one KiB takes up to 13 ms. Parsing it takes up to 160 ms if it contains explicit parameters of a curve
 * over a field in which square roots take long. So failed handshakes take at most a quarter of the time and, unless they come from ever new
 * sites, a twentieth.
 */
const rests = { newSite: 500, failedSite: 3_000 } as const;

/** Maximum number of trusted addresses, and of sites from which a handshake has failed. */
const maxTrusted = 1_000;
const maxFailed = 10_000;

/** How long a failed handshake counts against its site, in milliseconds. */
const failedFor = 600_000;

interface Handshake {
  readonly socket: Socket;
  /** The addresses of both ends. */
  readonly ends: string;
  /** The smallest and the largest of the client's networks. */
  readonly address: string;
  readonly site: string;
  readonly begin: (begun: () => void) => void;
}

/** Handshakes of which one is in progress at a time. */
interface Lane {
  /** The trusted address; empty for the lane of strangers. */
  readonly address: string;
  readonly waiting: Set<Handshake>;
  isBusy: boolean;
}

/**
 * Queues the handshakes of a listener that requires client certificates. Anyone may send a chain of certificates that nobody has issued:
 * OpenSSL verifies all signatures of up to 100 certificates in the event loop before Node refuses the client. With slow curves, that takes
 * half a second, and Node has no option that limits the chain.
 *
 * An address is trusted if its latest handshake was completed. Each trusted address has a lane of its own. All other clients are strangers
 * and share one lane, in which clients of sites without a failed handshake go first.
 */
export class CertificateTurns {
  /** The lanes of trusted addresses. */
  readonly #lanes = new Map<string, Lane>();
  readonly #strangers: Lane = { address: '', waiting: new Set(), isBusy: false };
  readonly #trusted = new LRUCache<string, true>({ max: maxTrusted });
  readonly #failedSites = new LRUCache<string, true>({ max: maxFailed, ttl: failedFor });
  /** Strangers wait until these times, by `performance.now()`. */
  readonly #restsUntil = { newSite: 0, failedSite: 0 };
  readonly #timers: Partial<Record<keyof typeof rests, NodeJS.Timeout>> = {};
  /** Ends the turns of handshakes that have begun, by the addresses of both ends. */
  readonly #turns = new Map<string, (hasSucceeded: boolean) => void>();

  /** @param server the TLS server that `begin` passes the connections to */
  constructor(server: EventEmitter) {
    // An earlier listener destroys the socket if the client has resumed a session after its certificate has expired.
    server.on('secureConnection', (socket: TLSSocket) => {
      if (!socket.destroyed) this.#turns.get(formatEndpoints(socket))?.(true);
    });
  }

  /**
   * Calls `begin` when it is the client's turn. The turn ends with the handshake.
   *
   * @param begin calls its parameter when the handshake begins, which may be later. Until then, the client may be closed for other reasons
   */
  add(socket: Socket, begin: (begun: () => void) => void): void {
    const ends = formatEndpoints(socket);
    const [site = '', ...networks] = networksOf(canonicalAddress(socket.remoteAddress ?? '') ?? '');
    const handshake = { socket, ends, begin, site, address: networks.at(-1) ?? '' };
    socket.once('close', () => {
      this.#turns.get(ends)?.(false);
      for (const lane of [this.#strangers, this.#lanes.get(handshake.address)]) lane?.waiting.delete(handshake);
    });
    this.#wait(handshake);
  }

  #wait(handshake: Handshake): void {
    const { address } = handshake;
    const isTrusted = this.#trusted.get(address) === true;
    const lane = isTrusted
      ? (this.#lanes.get(address) ?? { address, waiting: new Set(), isBusy: false })
      : this.#strangers;
    if (isTrusted) this.#lanes.set(address, lane);
    lane.waiting.add(handshake);
    // While strangers rest, thousands of others may come, and each search looks through all that wait.
    if (isTrusted || !this.#rests(this.#kindOf(handshake))) this.#beginNext(lane);
  }

  #kindOf({ site }: Handshake): keyof typeof rests {
    return this.#failedSites.has(site) ? 'failedSite' : 'newSite';
  }

  /** Whether strangers of this kind must wait. If so, the next one begins after that. */
  #rests(kind: keyof typeof rests): boolean {
    const rest = this.#restsUntil[kind] - performance.now();
    if (rest <= 0) return false;
    this.#timers[kind] ??= setTimeout(() => {
      delete this.#timers[kind];
      this.#beginNext(this.#strangers);
    }, rest).unref();
    return true;
  }

  #beginNext(lane: Lane): void {
    if (lane.isBusy) return;
    const handshake = lane === this.#strangers ? this.#nextStranger() : [...lane.waiting].at(-1);
    if (handshake === undefined) {
      if (this.#lanes.get(lane.address) === lane) this.#lanes.delete(lane.address);
      return;
    }
    lane.waiting.delete(handshake);
    lane.isBusy = true;
    const { socket, ends } = handshake;
    // Only what follows the first message counts, because the certificates come later.
    const before = socket.bytesRead;
    let hasBegun = false;
    this.#turns.set(ends, (hasSucceeded) => {
      this.#turns.delete(ends);
      lane.isBusy = false;
      if (hasSucceeded) this.#trust(handshake);
      else if (hasBegun) this.#distrust(handshake, socket.bytesRead - before);
      this.#beginNext(lane);
    });
    handshake.begin(() => (hasBegun = true));
  }

  /** The stranger that is next, if one may begin. The newest goes first, because in a flood, the others have left, or leave soon. */
  #nextStranger(): Handshake | undefined {
    const newestFirst = [...this.#strangers.waiting].toReversed();
    const ofNewSite = newestFirst.find((each) => this.#kindOf(each) === 'newSite');
    const next = ofNewSite ?? newestFirst[0];
    return next === undefined || this.#rests(this.#kindOf(next)) ? undefined : next;
  }

  #trust({ address }: Handshake): void {
    this.#trusted.set(address, true);
    this.#move(this.#strangers, address);
  }

  #distrust({ address, site }: Handshake, bytes: number): void {
    const now = performance.now();
    for (const kind of ['newSite', 'failedSite'] as const)
      this.#restsUntil[kind] = Math.max(this.#restsUntil[kind], now + (bytes / 1_024) * rests[kind]);
    this.#failedSites.set(site, true);
    this.#trusted.delete(address);
    const lane = this.#lanes.get(address);
    this.#lanes.delete(address);
    if (lane !== undefined) this.#move(lane, address);
  }

  /** Lets the waiting clients of an address wait in the lane that they belong to now. */
  #move(from: Lane, address: string): void {
    const moved = [...from.waiting].filter((each) => each.address === address);
    for (const each of moved) from.waiting.delete(each);
    for (const each of moved) this.#wait(each);
  }
}

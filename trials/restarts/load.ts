import { setTimeout } from 'node:timers/promises';
import { KeepAliveClient } from '../load/client.ts';
import type { PeerTls } from '../load/tls-socket.ts';
import { plainCharge, sealedCharge, sealedLook, type Exchange, type Pair } from '../load/pair.ts';

/** The number of merchants. */
const clients = 8;
/** Milliseconds between two requests of the same merchant. */
const pause = 3;
/** The size of every tenth charge, which arrives in several pieces. Bytes. */
const manyBytes = 150_000;

/** A steady load of enveloped and plain requests, which runs until it is told to end or the port is closed. */
export class SteadyLoad {
  answered = 0;
  /** Requests that found the port closed. */
  refused = 0;
  /** Requests on new connections that ended without a response, and that neither core has seen. */
  notTaken = 0;
  readonly problems: string[] = [];
  readonly #pair: Pair;
  readonly #port: number;
  readonly #tls: PeerTls;
  readonly #prefix: string;
  readonly #ends: 'when told' | 'when it is killed';
  readonly #running: Promise<unknown>;
  #ended = false;
  #sent = 0;

  constructor(
    pair: Pair,
    port: number,
    tls: PeerTls,
    prefix: string,
    ends: 'when told' | 'when it is killed' = 'when told',
  ) {
    this.#pair = pair;
    this.#port = port;
    this.#tls = tls;
    this.#prefix = prefix;
    this.#ends = ends;
    this.#running = Promise.all(Array.from({ length: clients }, () => this.#client()));
  }

  /** Resolves when all requests have ended. */
  async finished(): Promise<void> {
    await this.#running;
  }

  async end(): Promise<void> {
    this.#ended = true;
    await this.finished();
  }

  async #client(): Promise<void> {
    const client = new KeepAliveClient(this.#port, this.#tls);
    while (!this.#ended) {
      const exchange = this.#next();
      const outcome = await client.ask(exchange.asked);
      if (outcome.kind === 'refused') {
        this.refused += 1;
        break;
      }
      if (outcome.kind === 'answered') {
        const complaint = exchange.complaint(outcome);
        if (complaint === undefined) this.answered += 1;
        else this.#complain(exchange, complaint);
      } else if (this.#ends === 'when it is killed') {
        break;
      } else if (!outcome.begun && !outcome.reused && !this.#wasSeen(exchange)) {
        this.notTaken += 1;
      } else {
        this.#complain(exchange, `broken off: ${JSON.stringify(outcome)}, seen: ${this.#wasSeen(exchange)}`);
      }
      await setTimeout(pause);
    }
    client.close();
  }

  #next(): Exchange {
    this.#sent += 1;
    const id = `${this.#prefix}-${this.#sent}`;
    const [one, two] = this.#pair;
    const size = this.#sent % 10 === 0 ? manyBytes : 0;
    switch (this.#sent % 5) {
      case 0:
        return plainCharge(this.#pair, id, '/charges', size);
      case 1:
        return sealedCharge(this.#pair, one, id, '/api/s2s/charges', size);
      case 2:
        return sealedCharge(this.#pair, two, id, '/api/s2s/charges/slow');
      case 3:
        return sealedLook(this.#pair, id, '/api/s2s/looks');
      default:
        return plainCharge(this.#pair, id, '/charges/slow');
    }
  }

  #wasSeen({ id }: Exchange): boolean {
    return this.#pair.some(({ core }) => core.seen.has(id));
  }

  #complain({ asked, id }: Exchange, complaint: string): void {
    this.problems.push(`${asked.method} ${asked.path} ${id}: ${complaint}`);
  }
}

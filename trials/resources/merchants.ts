import { setTimeout } from 'node:timers/promises';
import { KeepAliveClient, type ClientTls } from '../load/client.ts';
import { plainCharge, sealedCharge, sealedLook, type Exchange, type Pair } from '../load/pair.ts';

const lanes = 4;
/** Milliseconds between two requests on a lane. */
const pause = 20;
/** How long the last requests may take, in milliseconds. */
const patience = 30_000;
/** The number of requests on one connection. */
const perConnection = 25;

/** How many requests got a response, and how long they took, in milliseconds. */
export interface Figures {
  readonly requests: number;
  readonly median: number;
  readonly longest: number;
}

/** Merchants with valid secret keys. They measure how long each request takes. */
export class Merchants {
  readonly #port: number;
  readonly #exchange: (turn: number) => Exchange;
  readonly #tls: ClientTls | undefined;
  readonly #times: number[] = [];
  readonly #problems: string[] = [];
  readonly #running: Promise<unknown>;
  #ended = false;

  constructor(port: number, exchange: (turn: number) => Exchange, tls?: ClientTls) {
    this.#port = port;
    this.#exchange = exchange;
    this.#tls = tls;
    this.#running = Promise.all(Array.from({ length: lanes }, (_, lane) => this.#run(lane)));
  }

  /** Discards the times so far. */
  startMeasuring(): void {
    this.#times.length = 0;
  }

  /** @returns the failed requests, and those that took longer than this many milliseconds */
  async end(longest: number): Promise<string[]> {
    this.#ended = true;
    await Promise.race([this.#running, setTimeout(patience).then(() => this.#problems.push('a request has no end'))]);
    const late = this.#times.filter((time) => time > longest);
    return late.length === 0
      ? [...this.#problems]
      : [...this.#problems, `${late.length} requests took longer than ${longest} ms`];
  }

  get figures(): Figures {
    const times = this.#times.toSorted((a, b) => a - b);
    return { requests: times.length, median: times[times.length >> 1] ?? 0, longest: times.at(-1) ?? 0 };
  }

  async #run(lane: number): Promise<void> {
    let client = new KeepAliveClient(this.#port, this.#tls);
    for (let turn = lane; !this.#ended; turn += lanes) {
      if (turn % perConnection === 0) {
        client.close();
        client = new KeepAliveClient(this.#port, this.#tls);
      }
      const exchange = this.#exchange(turn);
      const begin = performance.now();
      const outcome = await client.ask(exchange.asked);
      this.#times.push(performance.now() - begin);
      const problem = outcome.kind === 'answered' ? exchange.complaint(outcome) : JSON.stringify(outcome);
      if (problem !== undefined) this.#problems.push(`request ${exchange.id}: ${problem}`);
      if (outcome.kind === 'refused') break;
      await setTimeout(pause);
    }
    client.close();
  }
}

/** Requests that alternate between the two versions of a pair. */
export function pairExchanges(pair: Pair): (turn: number) => Exchange {
  return (turn) => {
    const id = `merchant-${turn}`;
    if (turn % 3 === 0) return plainCharge(pair, id, '/charges', turn % 30 === 0 ? 100_000 : 100);
    if (turn % 7 === 0) return sealedLook(pair, id, '/api/s2s/looks');
    return sealedCharge(pair, pair[turn % 2 === 0 ? 0 : 1], id, '/api/s2s/charges', turn % 40 === 0 ? 50_000 : 100);
  };
}

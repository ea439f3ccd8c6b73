import { setTimeout } from 'node:timers/promises';
import { keys } from '../../test/support/sidecar.ts';
import { KeepAliveClient, type Outcome } from '../load/client.ts';

/** The token of the only operator, which is also in `contents.ts`. */
export const operatorsToken = keys.globex;

/** Milliseconds between two requests. */
const pause = 250;
/** How often the user of a browser would try to connect. */
const tries = 5;

const look = {
  method: 'GET',
  path: '/api/v1/accounts',
  headers: { Authorization: `Bearer ${operatorsToken}` },
};

/** An operator with a valid token, who uses a connection from before the attack as well as new ones. */
export class Operator {
  readonly #port: number;
  readonly #problems: string[] = [];
  readonly #running: Promise<unknown>;
  #left = false;

  constructor(port: number) {
    this.#port = port;
    this.#running = Promise.all([this.#stay(), this.#comeAgain()]);
  }

  /** @returns the requests that failed */
  async leave(): Promise<string[]> {
    this.#left = true;
    await this.#running;
    return this.#problems;
  }

  async #stay(): Promise<void> {
    const client = this.#client();
    for (let isFirst = true; !this.#left; isFirst = false) {
      const outcome = await client.ask(look);
      if (!isServed(outcome)) this.#problems.push(`operator: ${JSON.stringify(outcome)}`);
      else if (!outcome.reused && !isFirst) this.#problems.push('operator: the connection was closed');
      await setTimeout(pause);
    }
    client.close();
  }

  /** Opens new connections until the operator leaves. Until a new connection has shown its token, it may be evicted, but not every time. */
  async #comeAgain(): Promise<void> {
    while (!this.#left) {
      let outcome: Outcome | undefined;
      for (let i = 0; i < tries && !isServed(outcome); i += 1) {
        const client = this.#client();
        outcome = await client.ask(look);
        client.close();
      }
      if (!isServed(outcome)) this.#problems.push(`operator, on a new connection: ${JSON.stringify(outcome)}`);
      await setTimeout(pause);
    }
  }

  #client(): KeepAliveClient {
    return new KeepAliveClient(this.#port, { rejectUnauthorized: false });
  }
}

function isServed(outcome: Outcome | undefined): outcome is Outcome & { readonly kind: 'answered' } {
  return outcome?.kind === 'answered' && outcome.status === 200;
}

import { request } from 'node:https';
import { setTimeout } from 'node:timers/promises';
import { operatorsToken } from './every-feature.ts';
import type { PeerTls } from './tls-socket.ts';

/** Milliseconds between two requests. */
const pause = 100;

/** The requests that an operator sends in turn: reads, and a change that makes sidecars read the account again. */
const looks = ['/console/', '/api/v1/overview', '/api/v1/activity', '/api/v1/failures', '/api/v1/accounts'];
const change = '/api/v1/accounts/globex/rename';

/** An operator who uses the console while merchants send requests. */
export class Operators {
  readonly #port: number;
  readonly #tls: PeerTls;
  readonly #faults: string[];
  readonly #leaving = new AbortController();
  readonly #visit: Promise<void>;

  /** @param faults collects unexpected responses */
  constructor(port: number, tls: PeerTls, faults: string[]) {
    this.#port = port;
    this.#tls = tls;
    this.#faults = faults;
    this.#visit = this.#stay();
  }

  async leave(): Promise<void> {
    this.#leaving.abort();
    await this.#visit;
  }

  async #stay(): Promise<void> {
    for (let turn = 0; !this.#leaving.signal.aborted; turn += 1) {
      for (const path of looks) await this.#ask('GET', path);
      await this.#ask('POST', change, JSON.stringify({ name: `Globex ${turn}` }));
      await setTimeout(pause, undefined, { signal: this.#leaving.signal }).catch(() => {});
    }
  }

  async #ask(method: string, path: string, body?: string): Promise<void> {
    const status = await new Promise<number | string>((resolve) => {
      const headers = { Authorization: `Bearer ${operatorsToken}`, 'Content-Type': 'application/json' };
      const asked = request(
        { host: '127.0.0.1', port: this.#port, agent: false, ...this.#tls, method, path, headers },
        (response) => response.resume().on('close', () => resolve(response.statusCode ?? 0)),
      );
      asked.on('error', (error) => resolve(error.message));
      asked.end(body);
    });
    if (status !== 200) this.#faults.push(`operators: ${method} ${path}: ${status}`);
  }
}

import type { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { connectTo, readyEvent, reset } from '../load/tls-socket.ts';
import type { Addresses } from './addresses.ts';
import type { Entry } from './sidecar.ts';

/** How long a connection may stay open without a response, in milliseconds. */
const patience = 60_000;

/** The bytes that were received on a connection. */
export interface Received {
  readonly text: string;
  /** How the connection ended: `open` if it is still open, `hung` if nothing arrived in time. */
  readonly ending: 'open' | 'end' | 'reset' | 'hung';
}

/** A keep-alive connection to the sidecar, from a separate address. */
export class Client {
  readonly entry: Entry;
  readonly #addresses: Addresses;
  #socket: Socket | undefined;
  #text = '';
  #ending: Received['ending'] = 'open';
  #changed = (): void => {};
  address = '';

  constructor(entry: Entry, addresses: Addresses) {
    this.entry = entry;
    this.#addresses = addresses;
  }

  /** Connects, unless the connection of the previous case can be reused. */
  async ready(): Promise<void> {
    if (this.#socket !== undefined && this.#ending === 'open') return;
    this.#text = '';
    this.#ending = 'open';
    this.address = this.#addresses.next();
    const { port, tls } = this.entry;
    await new Promise<void>((resolve) => {
      const socket = connectTo(port, tls, this.address);
      this.#socket = socket;
      socket.once(readyEvent(tls), resolve);
      const end = (ending: Received['ending']): void => {
        if (this.#socket !== socket) return;
        if (this.#ending === 'open') this.#ending = ending;
        resolve();
        this.#changed();
      };
      socket.on('data', (chunk: Buffer) => {
        this.#text += chunk.toString('latin1');
        this.#changed();
      });
      socket.on('end', () => end('end'));
      socket.on('error', () => end('reset'));
      socket.on('close', () => end('end'));
    });
  }

  /** Writes the pieces separately, one after another. */
  async write(parts: readonly string[]): Promise<void> {
    for (const part of parts) {
      this.#socket?.write(part, 'latin1');
      await turn();
    }
  }

  /** Ends the sending side of the connection. */
  finish(): void {
    this.#socket?.end();
  }

  /** Waits until `enough` accepts the received bytes or the connection has ended. Returns the bytes, and forgets them. */
  async receive(enough: (text: string) => boolean): Promise<Received> {
    let hung = false;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      timer = setTimeout(() => {
        hung = true;
        resolve();
      }, patience);
      this.#changed = () => {
        if (this.#ending !== 'open' || enough(this.#text)) resolve();
      };
      this.#changed();
    });
    clearTimeout(timer);
    this.#changed = () => {};
    const received = { text: this.#text, ending: hung ? 'hung' : this.#ending } as const;
    this.#text = '';
    return received;
  }

  /** Cuts the connection, with a reset if possible. */
  cut(): void {
    // If the sending side was already ended, a reset fails and leaves the socket open.
    if (this.#ending === 'open' && this.#socket?.writableEnded === false) reset(this.#socket);
    else this.#socket?.destroy();
    this.#ending = 'reset';
  }

  /** The bytes that arrived without a request. */
  get unasked(): string {
    return this.#text;
  }
}

import type { Socket } from 'node:net';
import { connectTo, readyEvent, type PeerTls } from '../load/tls-socket.ts';
import { parseOnly, type RawResponse } from '../../test/support/connection.ts';

/** The timeout for a response, which is longer than the sidecar's timeouts. Milliseconds. */
const patience = 20_000;

/** A client's connection that writes at the requested moment, and waits for one response at a time. */
export class Wire {
  readonly #socket: Socket;
  #received = '';
  #settle: (response: RawResponse | undefined) => void = () => {};
  over = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => {
      this.#received += chunk.toString('latin1');
      const response = wholeResponse(this.#received);
      if (response === undefined) return;
      if (response.headers['connection'] === 'close') this.close();
      this.#settle(response);
    });
    socket.on('error', () => {});
    socket.on('end', () => socket.destroy());
    socket.on('close', () => {
      this.over = true;
      this.#settle(undefined);
    });
  }

  static open(port: number, tls: PeerTls): Promise<Wire> {
    return new Promise((resolve, reject) => {
      const socket = connectTo(port, tls);
      socket.once(readyEvent(tls), () => {
        socket.off('error', reject);
        resolve(new Wire(socket));
      });
      socket.once('error', reject);
    });
  }

  /**
   * Writes the request before it returns. The result is the response, or undefined if the connection ended before the response was
   * complete.
   */
  send(request: string): Promise<RawResponse | undefined> {
    this.#received = '';
    const response = new Promise<RawResponse | undefined>((resolve) => {
      const timer = setTimeout(() => this.close(), patience);
      this.#settle = (settled) => {
        clearTimeout(timer);
        resolve(settled);
      };
    });
    this.#socket.write(request, 'latin1');
    return response;
  }

  close(): void {
    this.over = true;
    this.#socket.destroy();
  }
}

function wholeResponse(received: string): RawResponse | undefined {
  try {
    return parseOnly(received);
  } catch {
    return undefined;
  }
}

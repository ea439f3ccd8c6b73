import { connect, type Socket } from 'node:net';
import { parseOnly, type RawAnswer } from '../../test/support/connection.ts';

/** An answer that takes longer does not come: longer than the sidecar waits for anything. Milliseconds. */
const patience = 20_000;

/** A client's connection that writes at the moment it is told to, and waits for one answer at a time. */
export class Wire {
  readonly #socket: Socket;
  #received = '';
  #settle: (answer: RawAnswer | undefined) => void = () => {};
  over = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => {
      this.#received += chunk.toString('latin1');
      const answer = wholeAnswer(this.#received);
      if (answer === undefined) return;
      if (answer.headers['connection'] === 'close') this.close();
      this.#settle(answer);
    });
    socket.on('error', () => {});
    socket.on('end', () => socket.destroy());
    socket.on('close', () => {
      this.over = true;
      this.#settle(undefined);
    });
  }

  static open(port: number): Promise<Wire> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.off('error', reject);
        resolve(new Wire(socket));
      });
      socket.once('error', reject);
    });
  }

  /** Writes before it returns. Resolves with the answer, or undefined where the connection ended before it was whole. */
  send(request: string): Promise<RawAnswer | undefined> {
    this.#received = '';
    const answer = new Promise<RawAnswer | undefined>((resolve) => {
      const timer = setTimeout(() => this.close(), patience);
      this.#settle = (settled) => {
        clearTimeout(timer);
        resolve(settled);
      };
    });
    this.#socket.write(request, 'latin1');
    return answer;
  }

  close(): void {
    this.over = true;
    this.#socket.destroy();
  }
}

function wholeAnswer(received: string): RawAnswer | undefined {
  try {
    return parseOnly(received);
  } catch {
    return undefined;
  }
}

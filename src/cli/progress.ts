import type { Output } from './output.ts';

const width = 30;
/** Milliseconds between two drawings. */
const pause = 100;

/** A progress bar on a terminal. Elsewhere nothing is written. */
export class Progress {
  readonly #output: Output;
  readonly #clock: () => number;
  #drawn = -Infinity;

  /** @param clock epoch milliseconds */
  constructor(output: Output, clock: () => number) {
    this.#output = output;
    this.#clock = clock;
  }

  /** @param share from 0 to 1; undefined if the total is not known */
  draw(share: number | undefined, accounts: number): void {
    const now = this.#clock();
    if (now - this.#drawn < pause) return;
    this.#drawn = now;
    this.#replaceLine(
      `${share === undefined ? '' : barOf(Math.min(share, 1))}${accounts.toLocaleString('en')} accounts`,
    );
  }

  end(): void {
    this.#replaceLine('');
  }

  #replaceLine(text: string): void {
    if (this.#output.isTerminal) void this.#output.write(`\r\u001B[K${text}`);
  }
}

function barOf(share: number): string {
  const done = Math.floor(share * width);
  return `[${'#'.repeat(done)}${'.'.repeat(width - done)}] ${String(Math.floor(share * 100)).padStart(3)} %  `;
}

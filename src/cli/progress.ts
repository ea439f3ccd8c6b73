import type { Output } from './output.ts';

const width = 30;
/** Milliseconds between two drawings. */
const pause = 100;

/** A progress bar on a terminal. Elsewhere nothing is written. */
export class Progress {
  readonly #output: Output;
  readonly #clock: () => number;
  readonly #isShown: boolean;
  #drawn = -Infinity;

  /** @param clock epoch milliseconds */
  constructor(output: Output, clock: () => number) {
    this.#output = output;
    this.#clock = clock;
    this.#isShown = output.isTerminal;
  }

  /** @param share from 0 to 1; undefined if the total is not known */
  draw(share: number | undefined, accounts: number): void {
    const now = this.#clock();
    if (!this.#isShown || now - this.#drawn < pause) return;
    this.#drawn = now;
    const count = `${accounts.toLocaleString('en')} accounts`;
    const bar = share === undefined ? '' : barOf(Math.min(share, 1));
    void this.#output.write(`\r\u001B[K${bar}${count}`);
  }

  end(): void {
    if (this.#isShown) void this.#output.write('\r\u001B[K');
  }
}

function barOf(share: number): string {
  const done = Math.floor(share * width);
  return `[${'#'.repeat(done)}${'.'.repeat(width - done)}] ${String(Math.floor(share * 100)).padStart(3)} %  `;
}

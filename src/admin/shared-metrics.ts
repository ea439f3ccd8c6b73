import type { Registry } from 'prom-client';

/** How long all readers get the same text, in milliseconds. */
const sharedFor = 1_000;

/** The text of all metrics. It is rendered at most once a second, however many readers there are. */
export class SharedMetrics {
  readonly #registry: Registry;
  #text: Promise<Buffer> | undefined;

  constructor(registry: Registry) {
    this.#registry = registry;
  }

  /** The text, at most a second old. All readers get the same bytes, so that slow readers do not each hold a copy. */
  text(): Promise<Buffer> {
    this.#text ??= this.#render();
    return this.#text;
  }

  async #render(): Promise<Buffer> {
    try {
      const text = Buffer.from(await this.#registry.metrics());
      setTimeout(() => (this.#text = undefined), sharedFor).unref();
      return text;
    } catch (error) {
      this.#text = undefined;
      throw error;
    }
  }
}

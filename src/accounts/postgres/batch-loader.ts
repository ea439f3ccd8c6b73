import { setTimeout as delay } from 'node:timers/promises';

/** Maximum number of keys in one query. */
const largest = 250;

/**
 * Looks up values by key, with one query at a time. Look-ups that are made during a query wait and share the next query, which covers up to
 * `largest` keys. A look-up waits for at most two queries, unless more than `largest` keys are waiting.
 */
export class BatchLoader<T> {
  readonly #query: (keys: readonly string[]) => Promise<ReadonlyMap<string, T>>;
  readonly #interval: number;
  #waiting = new Map<string, Pending<T>>();
  #underWay: ReadonlyMap<string, Pending<T>> = new Map();
  #running = false;

  /**
   * @param query resolves with the values that it finds
   * @param interval the minimum time from the start of one query to the start of the next, in milliseconds
   */
  constructor(query: (keys: readonly string[]) => Promise<ReadonlyMap<string, T>>, interval: number) {
    this.#query = query;
    this.#interval = interval;
  }

  /** The value of a key; undefined if there is none. Rejects if the query does. */
  load(key: string): Promise<T | undefined> {
    let question = this.#underWay.get(key) ?? this.#waiting.get(key);
    if (question === undefined) {
      question = Promise.withResolvers<T | undefined>();
      this.#waiting.set(key, question);
      void this.#run();
    }
    return question.promise;
  }

  /** After this call, look-ups wait for the next query, because the results of the current one may be out of date. */
  invalidate(): void {
    this.#underWay = new Map();
  }

  async #run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    while (this.#waiting.size > 0) {
      const batch = new Map([...this.#waiting].slice(0, largest));
      for (const key of batch.keys()) this.#waiting.delete(key);
      this.#underWay = batch;
      const pause = delay(this.#interval);
      await this.#resolve(batch);
      this.#underWay = new Map();
      await pause;
    }
    this.#running = false;
  }

  async #resolve(batch: ReadonlyMap<string, Pending<T>>): Promise<void> {
    try {
      const values = await this.#query([...batch.keys()]);
      for (const [key, { resolve }] of batch) resolve(values.get(key));
    } catch (error) {
      for (const { reject } of batch.values()) reject(error);
    }
  }
}

type Pending<T> = PromiseWithResolvers<T | undefined>;

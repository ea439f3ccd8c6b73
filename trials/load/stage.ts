/** Registers a clean-up function. Tests pass vitest's function, and commands pass the function of their stage. */
export type Defer = (release: () => Promise<void> | void) => void;

/** Clean-up functions, which run from last to first. */
export class Stage {
  readonly #releases: (() => Promise<void> | void)[] = [];
  readonly defer: Defer = (release) => void this.#releases.push(release);

  async cleanUp(): Promise<void> {
    for (let release = this.#releases.pop(); release !== undefined; release = this.#releases.pop()) await release();
  }
}

/** Calls `run` with a new stage, which is always cleaned up afterwards, even after an interrupt. */
export async function withCleanUp<T>(run: (defer: Defer) => Promise<T>): Promise<T> {
  const stage = new Stage();
  const interrupted = (): void => void stage.cleanUp().then(() => process.exit(1));
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted);
  try {
    return await run(stage.defer);
  } finally {
    process.off('SIGINT', interrupted).off('SIGTERM', interrupted);
    await stage.cleanUp();
  }
}

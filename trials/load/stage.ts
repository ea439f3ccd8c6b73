/** Takes what is to be done at the end. Tests give vitest's own, commands that of their stage. */
export type Defer = (release: () => Promise<void> | void) => void;

/** What is to be done at the end, from the last to the first. */
export class Stage {
  readonly #releases: (() => Promise<void> | void)[] = [];
  readonly defer: Defer = (release) => void this.#releases.push(release);

  async takeDown(): Promise<void> {
    for (let release = this.#releases.pop(); release !== undefined; release = this.#releases.pop()) await release();
  }
}

/** Runs on a stage of its own, which is taken down however the run ends, interrupted too. */
export async function onStage<T>(run: (defer: Defer) => Promise<T>): Promise<T> {
  const stage = new Stage();
  const interrupted = (): void => void stage.takeDown().then(() => process.exit(1));
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted);
  try {
    return await run(stage.defer);
  } finally {
    process.off('SIGINT', interrupted).off('SIGTERM', interrupted);
    await stage.takeDown();
  }
}

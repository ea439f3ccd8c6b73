/** Takes what is to be done at the end. Tests give vitest's own, commands that of their stage. */
export type Defer = (release: () => Promise<void> | void) => void;

/** Runs on a stage of its own, which is taken down from the last to the first however the run ends, interrupted too. */
export async function onStage<T>(run: (defer: Defer) => Promise<T>): Promise<T> {
  const releases: (() => Promise<void> | void)[] = [];
  const takeDown = async (): Promise<void> => {
    for (let release = releases.pop(); release !== undefined; release = releases.pop()) await release();
  };
  const interrupted = (): void => void takeDown().then(() => process.exit(1));
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted);
  try {
    return await run((release) => void releases.push(release));
  } finally {
    process.off('SIGINT', interrupted).off('SIGTERM', interrupted);
    await takeDown();
  }
}

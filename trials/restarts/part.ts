/** The results of one part of the run. */
export interface Part {
  readonly name: string;
  readonly loops: number;
  /** The number of requests that got the expected response. */
  readonly answered: number;
  /** The number of requests that found the port closed, or a listener that had just been closed. A gateway would send them elsewhere. */
  readonly notTaken: number;
  /** The number of API keys that were issued during the run. */
  readonly keys: number | undefined;
  /** The longest time from the start of a process until all its listeners were open, in milliseconds. */
  readonly slowest: number | undefined;
  readonly problems: readonly string[];
}

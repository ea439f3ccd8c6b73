/** The results of one part of the run. */
export interface Part {
  readonly name: string;
  readonly loops: number;
  /** Requests with the expected response. */
  readonly answered: number;
  /** Requests that found the port closed, or a listener that was just closed: a gateway sends them elsewhere. */
  readonly notTaken: number;
  /** API keys issued during the run. */
  readonly keys: number | undefined;
  /** The longest time from the start of the process until all listeners are open, in milliseconds. */
  readonly slowest: number | undefined;
  readonly problems: readonly string[];
}

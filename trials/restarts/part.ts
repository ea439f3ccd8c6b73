/** What one part of the run has found. */
export interface Part {
  readonly name: string;
  readonly loops: number;
  /** Requests that were answered as they should be. */
  readonly answered: number;
  /** Requests that found the port closed, or a listener that was just closed: a gateway sends them elsewhere. */
  readonly notTaken: number;
  /** API keys that were given out meanwhile. */
  readonly keys: number | undefined;
  /** The longest start, from the command to its listeners, in milliseconds. */
  readonly slowest: number | undefined;
  readonly problems: readonly string[];
}

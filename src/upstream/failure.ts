/** Why there is no (whole) answer. */
export interface UpstreamFailure {
  readonly code: 'upstream_unavailable' | 'upstream_timeout';
  /** The error's own code, for the log: ECONNREFUSED, ECONNCLOSED, BAD_HEAD, … Never a message, which may name addresses. */
  readonly cause: string;
}

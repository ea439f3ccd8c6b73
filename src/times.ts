/** Milliseconds since 1970, as the wall clock has them. It may be put forward or back. */
export type EpochMs = number & { readonly scale?: 'epoch' };

/** Milliseconds on the scale of `performance.now()`, which never jumps: for deadlines and durations. */
export type MonotonicMs = number & { readonly scale?: 'monotonic' };

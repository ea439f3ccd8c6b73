/** Milliseconds since 1970 on the wall clock, which may be set forward or back. */
export type EpochMs = number & { readonly scale?: 'epoch' };

/** Milliseconds as returned by `performance.now()`, whose clock never jumps. For deadlines and durations. */
export type MonotonicMs = number & { readonly scale?: 'monotonic' };

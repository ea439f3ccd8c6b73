/** A well-formed `traceparent` (W3C Trace Context §3.2). The groups are the trace id, the parent's span id and the flags. */
export const traceparentForm =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/;

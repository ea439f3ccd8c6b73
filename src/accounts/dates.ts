/** RFC 3339, without a fraction of zero. @param time epoch milliseconds */
export function rfc3339(time: number): string {
  return new Date(time).toISOString().replace('.000Z', 'Z');
}

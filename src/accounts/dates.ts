/** RFC 3339, without a fraction of zero. @param time epoch milliseconds */
export function rfc3339(time: number): string {
  const written = new Date(time).toISOString();
  return time % 1_000 === 0 ? `${written.slice(0, -5)}Z` : written;
}

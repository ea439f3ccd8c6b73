/** What `Connection` says on nearly every message: nothing about other headers. */
const usual = /^(?:keep-alive|close)$/i;

/**
 * A flat list of headers without those that `Connection` nominates: they end here (RFC 9110 §7.6.1).
 *
 * @param connection the values of all `Connection` headers, joined by commas
 */
export function withoutNominated(headers: string[], connection: string): string[] {
  if (usual.test(connection)) return headers;
  const nominated = new Set(connection.split(',').map((token) => token.trim().toLowerCase()));
  const kept: string[] = [];
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] as string;
    if (!nominated.has(name.toLowerCase())) kept.push(name, headers[i + 1] as string);
  }
  return kept;
}

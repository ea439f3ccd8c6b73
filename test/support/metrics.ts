import type { TestSidecar } from './sidecar.ts';

/** All that the admin listener's `/metrics` says. */
export async function scrape(sidecar: Pick<TestSidecar, 'adminUrl'>): Promise<string> {
  return (await fetch(`${sidecar.adminUrl}/metrics`)).text();
}

/** How many requests are in flight by the sidecar's own metric. */
export async function inFlight(sidecar: Pick<TestSidecar, 'adminUrl'>): Promise<number> {
  const found = /^envelope_sidecar_requests_in_flight (\d+)$/m.exec(await scrape(sidecar));
  if (found === null) throw new Error('no metric of requests in flight');
  return Number(found[1]);
}

import type { TestSidecar } from './sidecar.ts';

type Scraped = Pick<TestSidecar, 'adminUrl'> & Partial<Pick<TestSidecar, 'registry'>>;

/** All metrics: of a sidecar in this process as they are now, of another what its admin listener says. */
export async function scrape({ adminUrl, registry }: Scraped): Promise<string> {
  if (registry !== undefined) return registry.metrics();
  // What others have asked for is shared for a second.
  await new Promise((resolve) => void setTimeout(resolve, 1_000));
  return (await fetch(`${adminUrl}/metrics`)).text();
}

/** How many requests are in flight by the sidecar's own metric. */
export async function inFlight(sidecar: Scraped): Promise<number> {
  const found = /^envelope_sidecar_requests_in_flight (\d+)$/m.exec(await scrape(sidecar));
  if (found === null) throw new Error('no metric of requests in flight');
  return Number(found[1]);
}

/** How much of a limit is used, by the sidecar's own metric. */
export async function limitUsed(sidecar: Scraped, limit: 'in_flight' | 'buffered'): Promise<number> {
  const found = new RegExp(`^envelope_sidecar_limit_used\\{limit="${limit}"\\} (\\d+)$`, 'm').exec(
    await scrape(sidecar),
  );
  if (found === null) throw new Error(`no metric of what is used of ${limit}`);
  return Number(found[1]);
}

import { setTimeout as sleep } from 'node:timers/promises';
import type { TestSidecar } from './sidecar.ts';

type Scraped = Pick<TestSidecar, 'adminUrl'> & Partial<Pick<TestSidecar, 'registry'>>;

/** All metrics of a sidecar: from its registry if it runs in this process, otherwise from its admin listener. */
export async function scrape({ adminUrl, registry }: Scraped): Promise<string> {
  if (registry !== undefined) return registry.metrics();
  // The admin listener gives all scrapes within a second the same response.
  await sleep(1_000);
  return (await fetch(`${adminUrl}/metrics`)).text();
}

/** The number of requests in flight, according to the sidecar's metric. */
export async function inFlight(sidecar: Scraped): Promise<number> {
  const found = /^envelope_sidecar_requests_in_flight (\d+)$/m.exec(await scrape(sidecar));
  if (found === null) throw new Error('no metric of requests in flight');
  return Number(found[1]);
}

/** How much of a limit is in use, according to the sidecar's metric. */
export async function limitUsed(sidecar: Scraped, limit: 'connections' | 'in_flight' | 'buffered'): Promise<number> {
  const found = new RegExp(`^envelope_sidecar_limit_used\\{limit="${limit}"\\} (\\d+)$`, 'm').exec(
    await scrape(sidecar),
  );
  if (found === null) throw new Error(`no metric of what is used of ${limit}`);
  return Number(found[1]);
}

import { readFileSync } from 'node:fs';

/** The memory, in bytes, that a container is charged for and cannot reclaim: the memory of its process without file pages. */
export function heldBy(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const kilobytes = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]);
    return (kilobytes('RssAnon') + kilobytes('RssShmem')) * 1_024 || 0;
  } catch {
    return 0;
  }
}

/** How long the main thread of a process has waited for a CPU so far. Milliseconds. */
export function waitedBy(pid: number): number {
  const [, waited] = readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ');
  return Number(waited) / 1_000_000;
}

/** How much of the budgets is used, according to the sidecar's metrics. */
export async function limitUsed(adminUrl: string): Promise<Readonly<Record<string, number>>> {
  const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
  const used = /^envelope_sidecar_limit_used\{limit="(in_flight|buffered)"\} (\d+)$/gm;
  return Object.fromEntries([...metrics.matchAll(used)].map(([, limit = '', value]) => [limit, Number(value)]));
}

/** The number of requests for an environment so far, including refused ones; 0 if the metrics cannot be read. */
export async function requestsOf(environment: 'test' | 'live', adminUrl: string): Promise<number> {
  const metrics = await fetch(`${adminUrl}/metrics`).then(
    (response) => response.text(),
    () => '',
  );
  const counts = metrics.matchAll(/^envelope_sidecar_requests_total\{environment="(\w+)".*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, name, value]) => sum + (name === environment ? Number(value) : 0), 0);
}

import { readFileSync } from 'node:fs';

/** The memory in bytes that a container is charged for and cannot reclaim: a process without its file pages. */
export function heldBy(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const kilobytes = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]);
    return (kilobytes('RssAnon') + kilobytes('RssShmem')) * 1_024 || 0;
  } catch {
    return 0;
  }
}

/** The use of the budgets, from the sidecar's metrics. */
export async function limitUsed(adminUrl: string): Promise<Readonly<Record<string, number>>> {
  const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
  const used = /^envelope_sidecar_limit_used\{limit="(in_flight|buffered)"\} (\d+)$/gm;
  return Object.fromEntries([...metrics.matchAll(used)].map(([, limit = '', value]) => [limit, Number(value)]));
}

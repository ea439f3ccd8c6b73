import { expect } from 'vitest';
import type { Result } from '../../bench/rounds.ts';

/** Expects that a workload was measured once with these peers, and that their responses were correct. */
export function expectMeasured({ workload, rounds, peakMemory }: Result, peers: readonly string[]): void {
  expect(workload.name).toBe('envelope-350');
  expect(rounds).toHaveLength(1);
  expect(rounds[0]?.map(({ peer }) => peer)).toEqual(peers);
  for (const { peer, requestsPerCpuSecond, busy, latency } of rounds[0] ?? []) {
    expect(requestsPerCpuSecond).toBeGreaterThan(100);
    expect(busy).toBeGreaterThan(0);
    expect(latency === undefined).toBe(!workload.latency);
    expect(peakMemory[peer]).toBeGreaterThan(1_000_000);
  }
}

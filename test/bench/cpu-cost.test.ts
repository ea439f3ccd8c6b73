import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { cpuCosts } from '../../bench/cpu-cost.ts';
import { chooseCores } from '../../bench/machine.ts';
import { peersOf } from '../../bench/peers.ts';
import { Processes } from '../../bench/processes.ts';
import { freePort } from '../support/free-port.ts';
import { workloads } from '../../bench/workloads.ts';
import { Folder } from '../support/folder.ts';

test('the CPU time of a request is compared with that of the first peer within each set of processes', async () => {
  const floor = peersOf(undefined).find(({ name }) => name === 'floor');
  const workload = workloads.find(({ name }) => name === 'envelope-350');
  if (floor === undefined || workload === undefined) throw new Error('no peer or no workload');
  const processes = new Processes();
  onTestFinished(() => processes.stopAll());
  const directory = new Folder({}).path;
  const cores = chooseCores();
  const upstream = await freePort();
  const program = fileURLToPath(new URL('../../bench/upstream.ts', import.meta.url));
  const output = new Folder({}).file('upstream.log');
  await processes.startServer({ command: process.execPath, args: [program, String(upstream)] }, upstream, {
    cores: cores.others,
    output,
  });

  // The windows are long enough that each contains a response, even on a busy machine.
  const pace = { sets: 2, windows: 3, window: 500, warmUp: 0.5 };
  const peers = [floor, { ...floor, name: 'again' }];
  const found = await cpuCosts({ directory, processes, cores, upstream }, workload, peers, pace);

  expect(found.peers.map(({ peer }) => peer)).toEqual(['floor', 'again']);
  expect(found.peers[0]?.ratios).toEqual([1, 1]);
  for (const { microseconds, ratios } of found.peers) {
    expect(ratios.every((ratio) => ratio > 0)).toBe(true);
    expect(microseconds.every((each) => each > 1 && each < 100_000)).toBe(true);
  }
});

import { test } from 'vitest';
import { peersOf } from '../../bench/peers.ts';
import { measure } from '../../bench/rounds.ts';
import { withStage } from '../../bench/stage.ts';
import { workloads } from '../../bench/workloads.ts';
import { Folder } from '../support/folder.ts';
import { expectMeasured } from './expect-measured.ts';

// This test has its own file, because it pins this process to some of the cores, as the benchmark does.
test(
  'every installed peer of the sidecar passes the check of its responses, and is measured',
  { timeout: 60_000 },
  async () => {
    const peers = peersOf(undefined).filter(
      (peer) => peer.name !== 'sidecar' && peer.identifies && peer.missing() === undefined,
    );
    const [workload] = workloads;
    if (workload === undefined) throw new Error('no workloads');
    const pace = { rounds: 1, seconds: 1, warmUp: 0, latency: true, rate: 200 };
    // Runs two measurements at the same time. The figures do not matter here.
    const halves = [peers.slice(0, 2), peers.slice(2)];
    const results = await withStage((stage) =>
      Promise.all(halves.map((half) => measure({ ...stage, directory: new Folder({}).path }, workload, half, pace))),
    );
    for (const [i, result] of results.entries()) {
      expectMeasured(
        result,
        (halves[i] ?? []).map(({ name }) => name),
      );
    }
  },
);

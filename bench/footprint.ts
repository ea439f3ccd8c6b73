import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { peakMemory, residentMemory } from './cpu-time.ts';
import { knownMerchants, requestsOf } from './exchanges.ts';
import { memoryWithConnections } from './idle-connections.ts';
import { runLoad, writeRequests } from './load.ts';
import { merchantsOf } from './merchants.ts';
import type { Pace } from './rounds.ts';
import type { Stage } from './stage.ts';
import { spreadOf, type Spread } from './statistics.ts';
import { withSidecar } from './with-sidecar.ts';

/** One of the sidecar's resources other than CPU time. */
export interface Footprint {
  readonly title: string;
  readonly unit: 'ms' | 'MB' | 'bytes';
  /** The value that the figure should not exceed. */
  readonly goal: number;
  readonly figure: Spread;
}

const megabyte = 1024 ** 2;
const connections = 32;

/** Measures the resources of the sidecar in fresh processes: before, under and after load. */
export async function footprint(
  stage: Stage,
  { rounds, seconds, warmUp }: Pick<Pace, 'rounds' | 'seconds' | 'warmUp'>,
): Promise<Footprint[]> {
  const figures = { start: [] as number[], idle: [] as number[], held: [] as number[], peak: [] as number[] };
  const promoted: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    await withSidecar(stage, { merchants: merchantsOf(10, 'encrypting') }, async ({ process }, startUp) => {
      figures.start.push(startUp);
      // Memory that is needed only at startup is released a moment later.
      await setTimeout(2_000);
      figures.idle.push(residentMemory(process.pid) / megabyte);
    });
    await withSidecar(stage, {}, async ({ port, process }, _startUp, directory) => {
      await runLoad(port, smallRequests(directory), connections, warmUp + seconds);
      figures.peak.push(peakMemory(process.pid) / megabyte);
    });
    promoted.push(await promotedPerRequest(stage, { seconds, warmUp }));
    await withSidecar(stage, {}, async ({ port, process }) => {
      const memory = await memoryWithConnections(port, () => residentMemory(process.pid));
      figures.held.push((memory.get(10_000) ?? NaN) / megabyte);
    });
  }
  return [
    { title: 'From start to ready, 10 accounts', unit: 'ms', goal: 300, figure: spreadOf(figures.start) },
    { title: 'Memory when idle, 10 accounts', unit: 'MB', goal: 65, figure: spreadOf(figures.idle) },
    { title: 'Memory with 10,000 idle connections', unit: 'MB', goal: 200, figure: spreadOf(figures.held) },
    { title: 'Peak memory, enveloped POST 350 B', unit: 'MB', goal: 115, figure: spreadOf(figures.peak) },
    {
      title: 'Promoted for each request, after full collections',
      unit: 'bytes',
      goal: 300,
      figure: spreadOf(promoted),
    },
  ];
}

/**
 * The number of bytes per request that survive the young generation. Several full collections under load come first,
 * because tables that promote their entries do so only once they are old themselves.
 */
async function promotedPerRequest(
  stage: Stage,
  { seconds, warmUp }: Pick<Pace, 'seconds' | 'warmUp'>,
): Promise<number> {
  const collector = fileURLToPath(new URL('collect-on-signal.ts', import.meta.url));
  const flags = ['--expose-gc', '--trace-gc-nvp', '--import', collector];
  return withSidecar(
    stage,
    {},
    async ({ port, process: { pid } }, _startUp, directory) => {
      const file = smallRequests(directory);
      const load = runLoad(port, file, connections, warmUp + 2);
      await setTimeout(warmUp * 1_000);
      for (let i = 0; i < 3; i += 1) {
        process.kill(pid, 'SIGUSR2');
        await setTimeout(500);
      }
      await load;
      const log = join(directory, 'output.log');
      const before = promotedIn(log);
      const { requests } = await runLoad(port, file, connections, seconds + 2);
      return (promotedIn(log) - before) / requests;
    },
    flags,
  );
}

/** The number of bytes that V8 has promoted so far, according to its log. */
function promotedIn(log: string): number {
  const lines = readFileSync(log, 'latin1').matchAll(/"gc":"s",.*?"promoted":(\d+)/g);
  return [...lines].reduce((sum, [, bytes]) => sum + Number(bytes), 0);
}

function smallRequests(directory: string): string {
  mkdirSync(directory, { recursive: true });
  const file = join(directory, 'requests');
  writeRequests(file, requestsOf(knownMerchants.slice(0, 100), '/api/s2s/responses/156', 350));
  return file;
}

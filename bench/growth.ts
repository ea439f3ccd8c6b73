import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { cpuSeconds, residentMemory } from './cpu-time.ts';
import { knownMerchants, requestsOf } from './exchanges.ts';
import { memoryWithConnections } from './idle-connections.ts';
import { runLoad, writeRequests } from './load.ts';
import { merchantsOf } from './merchants.ts';
import type { Pace } from './rounds.ts';
import { envelopedRoute, type SidecarSetup } from './sidecar.ts';
import type { Stage } from './stage.ts';
import { spreadOf, type Spread } from './statistics.ts';
import { withSidecar } from './with-sidecar.ts';

/** How a figure changes as a size grows. */
export interface Curve {
  readonly title: string;
  /** The name of the size that grows. */
  readonly size: string;
  readonly unit: string;
  readonly points: readonly { readonly at: number; readonly figure: Spread }[];
}

/** A sidecar to measure at one size. */
interface Point {
  readonly at: number;
  readonly setup: Partial<SidecarSetup>;
  readonly requests: readonly Buffer[];
  readonly connections: number;
}

interface Figures {
  /** Milliseconds from the start of the process until it accepts connections. */
  readonly startUp: number;
  /** The bytes in use two seconds later, before the first request. */
  readonly idleMemory: number;
  /** The CPU microseconds of a request. */
  readonly perRequest: number;
}

const small = '/api/s2s/responses/156';

type GrowthPace = Pick<Pace, 'rounds' | 'seconds' | 'warmUp'>;

const cost = ({ perRequest }: Figures): number => perRequest;
const megabytes = (bytes: number): number => bytes / 1024 ** 2;

/**
 * The sidecar's costs as its tasks grow.
 *
 * @param say called with the name of each measurement
 */
export async function growth(stage: Stage, pace: GrowthPace, say: (what: string) => void): Promise<Curve[]> {
  say('accounts');
  const accounts = await figuresOf(stage, [10, 100, 1_000, 10_000].map(accountsPoint), pace);
  say('routes');
  const routes = await figuresOf(stage, [10, 100, 1_000].map(routesPoint), pace);
  say('bodies');
  const bodies = await figuresOf(stage, [100, 1_024, 10_240, 102_400, 1_048_576].map(bodiesPoint), pace);
  say('connections');
  const connections = await heldMemory(stage, pace.rounds);

  return [
    curve('An enveloped exchange of 350 B', 'accounts', 'µs CPU', accounts, cost),
    curve('From start to ready', 'accounts', 'ms', accounts, ({ startUp }) => startUp),
    curve('Memory two seconds after the start', 'accounts', 'MB', accounts, ({ idleMemory }) => megabytes(idleMemory)),
    curve('An enveloped exchange of 350 B', 'routes', 'µs CPU', routes, cost),
    curve('An enveloped exchange, both ways', 'bytes of body', 'µs CPU', bodies, cost),
    curve('Memory with idle connections', 'connections', 'MB', connections, megabytes),
  ];
}

function curve<T>(
  title: string,
  size: string,
  unit: string,
  measured: ReadonlyMap<number, readonly T[]>,
  figure: (measured: T) => number,
): Curve {
  return { title, size, unit, points: [...measured].map(([at, each]) => ({ at, figure: spreadOf(each.map(figure)) })) };
}

function accountsPoint(at: number): Point {
  const merchants = merchantsOf(at, 'encrypting');
  const senders = merchants.filter((_, i) => i % Math.ceil(at / 100) === 0);
  return { at, setup: { merchants }, requests: requestsOf(senders, small, 350), connections: 32 };
}

function routesPoint(at: number): Point {
  const others = Array.from({ length: at - 1 }, (_, i) => ({ path: `/api/v1/resource-${i}/:id`, methods: ['GET'] }));
  return {
    at,
    setup: { routes: [...others, envelopedRoute] },
    requests: requestsOf(knownMerchants.slice(0, 100), small, 350),
    connections: 32,
  };
}

/** With few connections, the requests in flight stay within the sidecar's limits. */
function bodiesPoint(at: number): Point {
  const senders = knownMerchants.slice(0, at > 100_000 ? 4 : 100);
  const requests = requestsOf(senders, `/api/s2s/responses/${at}`, at);
  return { at, setup: { requestBody: '4MiB' }, requests, connections: 8 };
}

/** The figures of each point in each round, each time from a fresh process. */
async function figuresOf(
  stage: Stage,
  points: readonly Point[],
  { rounds, seconds, warmUp }: GrowthPace,
): Promise<Map<number, Figures[]>> {
  const figures = new Map<number, Figures[]>(points.map(({ at }) => [at, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const point of points) {
      const measured = await withSidecar(stage, point.setup, async (sidecar, startUp, directory) => {
        // Memory that is needed only at startup is released a moment later.
        await setTimeout(2_000);
        const idleMemory = residentMemory(sidecar.process.pid);
        const file = join(directory, 'requests');
        writeRequests(file, point.requests);
        if (warmUp > 0) await runLoad(sidecar.port, file, point.connections, warmUp);
        const before = cpuSeconds(sidecar.process.pid);
        const { requests, refused, failed } = await runLoad(sidecar.port, file, point.connections, seconds);
        if (requests === 0 || refused + failed > 0) throw new Error(`${refused} refusals, ${failed} failures`);
        return { startUp, idleMemory, perRequest: ((cpuSeconds(sidecar.process.pid) - before) / requests) * 1e6 };
      });
      figures.get(point.at)?.push(measured);
    }
  }
  return figures;
}

/** The bytes of memory with each number of idle connections, for each round. */
async function heldMemory(stage: Stage, rounds: number): Promise<Map<number, number[]>> {
  const figures = new Map<number, number[]>();
  for (let round = 0; round < rounds; round += 1) {
    const points = await withSidecar(stage, {}, ({ port, process }) =>
      memoryWithConnections(port, () => residentMemory(process.pid)),
    );
    for (const [at, bytes] of points) figures.set(at, [...(figures.get(at) ?? []), bytes]);
  }
  return figures;
}

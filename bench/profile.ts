import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { SourceMap, type SourceMapPayload } from 'node:module';
import { basename, join } from 'node:path';
import { cpuSecondsByThread } from './cpu-time.ts';
import { exchangesOf, knownMerchants } from './exchanges.ts';
import { runLoad, writeRequests } from './load.ts';
import { freePort } from '../test/support/free-port.ts';
import type { Pace } from './rounds.ts';
import { project, sidecarCommand } from './sidecar.ts';
import type { Stage } from './stage.ts';
import type { Workload } from './workloads.ts';

/** The CPU time of the sidecar per request, split by the running code. */
export interface Profile {
  readonly workload: Workload;
  /** CPU microseconds per request under the profiler, all threads. */
  readonly perRequest: number;
  /** Their parts, in descending order. */
  readonly parts: readonly Cost[];
  /** The same by function, for the main thread only. */
  readonly functions: readonly Cost[];
}

export interface Cost {
  readonly name: string;
  /** CPU microseconds per request. */
  readonly microseconds: number;
}

/** A function, identified by its position; lines and columns count from 0. */
interface Frame {
  readonly functionName: string;
  readonly url: string;
  readonly lineNumber: number;
  readonly columnNumber: number;
}

/** The format of V8. */
interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: Frame;
    readonly children?: readonly number[];
  }[];
  /** Microseconds of the monotonic clock. */
  readonly startTime: number;
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** Runs the sidecar under the profiler of V8, after an uncounted warm-up. */
export async function profile(
  stage: Stage,
  workload: Workload,
  { seconds, warmUp }: Pick<Pace, 'seconds' | 'warmUp'>,
): Promise<Profile> {
  const directory = join(stage.directory, 'profile');
  mkdirSync(directory);
  const requests = join(directory, 'requests');
  writeRequests(
    requests,
    exchangesOf(workload).map(({ request }) => request),
  );
  const port = await freePort();
  const setup = { directory, port, upstream: stage.upstream, merchants: knownMerchants };
  const flags = ['--cpu-prof', `--cpu-prof-dir=${directory}`, '--cpu-prof-interval=200'];
  const sidecar = await stage.processes.startServer(sidecarCommand(project, setup, flags), port, {
    cores: stage.cores.server,
    output: join(directory, 'output.log'),
  });
  if (warmUp > 0) await runLoad(port, requests, workload.connections, warmUp);
  const from = microseconds();
  const before = cpuSecondsByThread(sidecar.pid);
  const load = await runLoad(port, requests, workload.connections, seconds);
  const after = cpuSecondsByThread(sidecar.pid);
  const until = microseconds();
  await sidecar.stop();

  const file = readdirSync(directory).find((name) => name.endsWith('.cpuprofile'));
  if (file === undefined) throw new Error('the sidecar left no profile');
  const recorded = JSON.parse(readFileSync(join(directory, file), 'utf8')) as CpuProfile;
  const { parts, functions } = split(recorded, from, until);
  const threads = new Map<string, number>();
  for (const [thread, seconds] of after) {
    const name = threadNames[thread] ?? 'other threads, the profiler among them';
    const used = ((seconds - (before.get(thread) ?? 0)) * 1e6) / load.requests;
    threads.set(name, (threads.get(name) ?? 0) + used);
  }
  // The profiler counts elapsed time, even while other processes had the core.
  const sampled = [...parts.values()].reduce((sum, time) => sum + time, 0);
  const cpuTime = (threads.get(mainThread) ?? NaN) / sampled;
  threads.delete(mainThread);
  const costs = (times: ReadonlyMap<string, number>, scale: number): Cost[] =>
    [...times].map(([name, time]) => ({ name, microseconds: time * scale }));
  const all = [...costs(parts, cpuTime), ...costs(threads, 1)].toSorted(dearestFirst);
  return {
    workload,
    perRequest: all.reduce((sum, { microseconds }) => sum + microseconds, 0),
    parts: all,
    functions: costs(functions, cpuTime).toSorted(dearestFirst),
  };
}

const mainThread = 'main thread';

/** The thread names that Node sets. */
const threadNames: Readonly<Record<string, string>> = {
  'node-MainThread': mainThread,
  'libuv-worker': 'thread pool: writing the log',
  'node-V8Worker': 'V8 threads: garbage collection, compiler',
};

function dearestFirst(a: Cost, b: Cost): number {
  return b.microseconds - a.microseconds;
}

/** Since the start of the machine, as V8 counts. */
function microseconds(): number {
  return Number(process.hrtime.bigint() / 1_000n);
}

/** Microseconds of the main thread between two points in time, by part of the program and by function. */
function split(
  { nodes, startTime, samples, timeDeltas }: CpuProfile,
  from: number,
  until: number,
): { parts: Map<string, number>; functions: Map<string, number> } {
  const sources = new Sources();
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, sources.original(callFrame)]));
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)));
  const parts = new Map<string, number>();
  const functions = new Map<string, number>();
  let now = startTime;
  for (const [i, node] of samples.entries()) {
    now += timeDeltas[i] ?? 0;
    const frame = frames.get(node);
    if (now < from || now > until || frame === undefined || frame.functionName === '(idle)') continue;
    let caller: number | undefined = node;
    while (caller !== undefined && frames.get(caller)?.url === '') caller = parents.get(caller);
    const url = frames.get(caller ?? -1)?.url ?? '';
    const part = partOf(frame.functionName, url, frame.url === '');
    const duration = timeDeltas[i + 1] ?? 0;
    parts.set(part, (parts.get(part) ?? 0) + duration);
    const place = frame.url === '' ? '' : ` (${basename(frame.url)}:${frame.lineNumber + 1})`;
    const name = `${frame.functionName || 'anonymous'}${place}, ${part}`;
    functions.set(name, (functions.get(name) ?? 0) + duration);
  }
  return { parts, functions };
}

/** Finds the sources of functions that the build bundled. */
class Sources {
  readonly #maps = new Map<string, SourceMap | undefined>();

  original(frame: Frame): Frame {
    if (!frame.url.startsWith('file:')) return frame;
    const entry = this.#mapOf(frame.url)?.findEntry(frame.lineNumber, frame.columnNumber);
    if (entry === undefined || !('originalSource' in entry)) return frame;
    return { ...frame, url: new URL(entry.originalSource, frame.url).href, lineNumber: entry.originalLine };
  }

  #mapOf(url: string): SourceMap | undefined {
    const file = new URL(`${url}.map`);
    if (!this.#maps.has(url)) {
      const text = existsSync(file) ? readFileSync(file, 'utf8') : undefined;
      this.#maps.set(url, text === undefined ? undefined : new SourceMap(JSON.parse(text) as SourceMapPayload));
    }
    return this.#maps.get(url);
  }
}

/**
 * The part of the program to which a function belongs.
 *
 * @param url of the nearest caller that is JavaScript
 */
function partOf(functionName: string, url: string, native: boolean): string {
  if (functionName === '(garbage collector)') return 'garbage collection';
  if (functionName === '(program)') return 'outside JavaScript: reading sockets, event loop';
  if (native && url === 'node:internal/stream_base_commons') return 'writing to sockets (system calls)';
  const dependency = /\/node_modules\/(@[^/]+\/[^/]+|[^/]+)\//.exec(url)?.[1];
  if (dependency !== undefined) return dependency;
  if (url.startsWith('wasm:')) return 'undici';
  const own = /\/src\/([^/]+)/.exec(url)?.[1];
  if (own !== undefined) return `src/${own}`;
  const [, module = 'other'] = /^node:(?:internal\/)?([^/]+)/.exec(url) ?? [];
  return `node: ${nodeParts.find(([pattern]) => pattern.test(module))?.[1] ?? module}`;
}

const nodeParts: readonly (readonly [RegExp, string])[] = [
  [/^_?http/, 'HTTP server'],
  [/^(?:net|streams?|_stream.*|stream_base_commons)$/, 'sockets and streams'],
  [/^(?:timers|process|events|event_target|async_hooks)$/, 'events, timers, promises'],
  [/^(?:buffer|string_decoder)$/, 'buffers'],
];

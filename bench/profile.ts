import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cpuSeconds } from './cpu-time.ts';
import { exchangesOf, knownMerchants } from './exchanges.ts';
import { runLoad, writeRequests } from './load.ts';
import { freePort } from './processes.ts';
import { project, sidecarCommand } from './sidecar.ts';
import type { Stage } from './stage.ts';
import type { Workload } from './workloads.ts';

/** Where the sidecar's CPU time goes: what a request costs, split over the code that was running. */
export interface Profile {
  readonly workload: Workload;
  /** CPU microseconds for a request, while it is being profiled. */
  readonly perRequest: number;
  /** In descending order. */
  readonly parts: readonly ProfilePart[];
  readonly functions: readonly ProfilePart[];
}

export interface ProfilePart {
  readonly name: string;
  /** Of the CPU time, 0 to 1. */
  readonly share: number;
}

/** V8's format. */
interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  }[];
  /** Microseconds of the monotonic clock. */
  readonly startTime: number;
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** Runs the sidecar under V8's profiler; what comes before it is warm does not count. */
export async function profile(stage: Stage, workload: Workload, seconds: number): Promise<Profile> {
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
  await runLoad(port, requests, workload.connections, seconds);
  const from = microseconds();
  const before = cpuSeconds(sidecar.pid);
  const load = await runLoad(port, requests, workload.connections, seconds);
  const used = cpuSeconds(sidecar.pid) - before;
  const until = microseconds();
  await sidecar.stop();

  const file = readdirSync(directory).find((name) => name.endsWith('.cpuprofile'));
  if (file === undefined) throw new Error('the sidecar left no profile');
  const recorded = JSON.parse(readFileSync(join(directory, file), 'utf8')) as CpuProfile;
  return { workload, perRequest: (used / load.requests) * 1e6, ...split(recorded, from, until) };
}

/** Since the machine has started, as V8 counts. */
function microseconds(): number {
  return Number(process.hrtime.bigint() / 1_000n);
}

function split(profile: CpuProfile, from: number, until: number): Pick<Profile, 'parts' | 'functions'> {
  const frames = new Map(profile.nodes.map(({ id, callFrame }) => [id, callFrame]));
  const parts = new Map<string, number>();
  const functions = new Map<string, number>();
  let total = 0;
  let now = profile.startTime;
  for (const [i, sample] of profile.samples.entries()) {
    const duration = profile.timeDeltas[i + 1] ?? 0;
    now += profile.timeDeltas[i] ?? 0;
    const frame = frames.get(sample);
    if (now < from || now > until || frame === undefined || frame.functionName === '(idle)') continue;
    const part = partOf(frame.functionName, frame.url);
    const name = `${frame.functionName || '(anonymous)'} · ${part}`;
    total += duration;
    parts.set(part, (parts.get(part) ?? 0) + duration);
    functions.set(name, (functions.get(name) ?? 0) + duration);
  }
  const ranked = (times: ReadonlyMap<string, number>): ProfilePart[] =>
    [...times].map(([name, time]) => ({ name, share: time / total })).toSorted((a, b) => b.share - a.share);
  return { parts: ranked(parts), functions: ranked(functions) };
}

/** The part of the program that a function belongs to. */
function partOf(functionName: string, url: string): string {
  if (functionName === '(garbage collector)') return 'garbage collection';
  if (functionName === '(program)') return 'outside JavaScript: system calls, libuv, HTTP parser';
  if (url === '') return 'native functions of Node and V8';
  const dependency = /\/node_modules\/(@[^/]+\/[^/]+|[^/]+)\//.exec(url)?.[1];
  if (dependency !== undefined) return dependency;
  const own = /\/dist\/([^/]+)/.exec(url)?.[1];
  return own === undefined ? url.replace(/^node:(?:internal\/)?/, 'node:').replace(/^(node:[^/]+).*/, '$1') : `src/${own}`;
}

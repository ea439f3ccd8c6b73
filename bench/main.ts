import { writeFileSync } from 'node:fs';
import { addedLatency } from './added-latency.ts';
import { attribution } from './attribution.ts';
import { writeDocs } from './docs.ts';
import { footprint } from './footprint.ts';
import { growth } from './growth.ts';
import { describeMachine, hasCommand } from './machine.ts';
import { parseOptions, usage, type Options } from './options.ts';
import { peersOf, takes, type Peer } from './peers.ts';
import { profile } from './profile.ts';
import type { Report } from './report.ts';
import { measure, type Pace, type Result } from './rounds.ts';
import { buildSidecar } from './sidecar.ts';
import { onStage, type Stage } from './stage.ts';
import {
  addedLatencyTable,
  asText,
  differenceTable,
  footprintTable,
  functionTable,
  partsTable,
  profileTable,
  ratioTable,
  significant,
  workloadTable,
} from './table.ts';
import { tracingCost } from './tracing-cost.ts';
import { workloads } from './workloads.ts';

function say(line: string): void {
  console.log(line);
}

async function run(options: Options): Promise<Report> {
  for (const tool of ['taskset', 'wrk']) {
    if (!hasCommand(tool))
      throw new Error(`${tool} is missing: apt-get install ${tool === 'wrk' ? 'wrk' : 'util-linux'}`);
  }
  await buildSidecar();
  const report = { date: new Date().toISOString().slice(0, 10), machine: describeMachine() };
  return onStage(async (stage) => {
    if (options.command === 'growth') return { ...report, growth: await grow(stage, options) };
    if (options.command === 'latency') return { ...report, latency: await latency(stage, options) };
    if (options.command === 'profile') {
      return { ...report, profile: await profiled(stage, options), attribution: await attributed(stage, options) };
    }
    if (options.command === 'footprint') return { ...report, footprint: await footprints(stage, options) };
    if (options.command === 'tracing') return { ...report, tracing: await traced(stage, options) };
    return { ...report, compare: await compare(stage, options) };
  });
}

async function compare(stage: Stage, options: Options): Promise<NonNullable<Report['compare']>> {
  const pace = paceOf(options);
  const peers = present(peersOf(options.baseline), options.peers);
  const titles = Object.fromEntries(peers.map(({ name, title }) => [name, title]));
  const results: Result[] = [];
  for (const workload of options.workloads) {
    const result = await measure(
      stage,
      workload,
      peers.filter((peer) => takes(peer, workload)),
      pace,
    );
    results.push(result);
    say(`\n${workload.title}, ${workload.connections} connections\n${asText(workloadTable(result, titles))}`);
  }
  say(`\nSidecar : peer, requests per CPU-second\n${asText(ratioTable(results, titles))}`);
  return { pace, titles, results };
}

/** The default peers: those that one would use instead of the sidecar. */
async function latency(stage: Stage, options: Options): Promise<NonNullable<Report['latency']>> {
  const { rounds = 5, seconds, warmUp } = options;
  const workload = workloads.find(({ name }) => name === 'pass-get');
  if (workload === undefined) throw new Error('no workload');
  const peers = present(peersOf(options.baseline), options.peers ?? ['sidecar', 'nginx-lua', 'go']);
  const titles = Object.fromEntries(peers.map(({ name, title }) => [name, title]));
  const added = await addedLatency(stage, workload, peers, { rounds, seconds, warmUp });
  say(`${workload.title}: added to the upstream's latency\n${asText(addedLatencyTable(added, titles))}`);
  return { rounds, titles, added };
}

/** The selected peers that can run; reports what the others lack. */
function present(all: readonly Peer[], names: readonly string[] | undefined): Peer[] {
  const unknown = names?.find((name) => !all.some((peer) => peer.name === name));
  if (unknown !== undefined) throw new Error(`unknown peer: ${unknown}`);
  return all.filter((peer) => {
    if (names !== undefined && !names.includes(peer.name)) return false;
    const missing = peer.missing();
    if (missing !== undefined) say(`${peer.title} is left out: ${missing}`);
    return missing === undefined;
  });
}

async function grow(
  stage: Stage,
  { rounds = 3, seconds, warmUp, postgres }: Options,
): Promise<NonNullable<Report['growth']>> {
  const curves = await growth(stage, { rounds, seconds, warmUp }, postgres, (what) => say(`measuring ${what}`));
  for (const { title, size, unit, points } of curves) {
    const lines = points.map(({ at, figure }) => [
      at.toLocaleString('en-US'),
      significant(figure.median),
      `${significant(figure.min)}–${significant(figure.max)}`,
    ]);
    say(`\n${title}\n${asText([[size, unit, 'range'], ...lines])}`);
  }
  return curves;
}

async function profiled(
  stage: Stage,
  { workloads, seconds, warmUp }: Options,
): Promise<NonNullable<Report['profile']>> {
  const [workload] = workloads;
  if (workload === undefined) throw new Error('no workload');
  const found = await profile(stage, workload, { seconds, warmUp });
  say(`${workload.title}: CPU time of a request\n\n${asText(profileTable(found))}\n\n${asText(functionTable(found))}`);
  return found;
}

/** Measures the same workload, but not under the profiler. */
async function attributed(stage: Stage, options: Options): Promise<NonNullable<Report['attribution']>> {
  const [workload] = options.workloads;
  const [sidecar, floor] = ['sidecar', 'floor'].map((name) => peersOf(undefined).find((peer) => peer.name === name));
  if (workload === undefined || sidecar === undefined || floor === undefined) throw new Error('nothing to compare');
  const found = await attribution(stage, workload, { sidecar, floor }, paceOf(options));
  say(`\n${workload.title}: the difference to the floor\n\n${asText(partsTable(found))}`);
  return found;
}

async function footprints(stage: Stage, options: Options): Promise<NonNullable<Report['footprint']>> {
  const { rounds, seconds, warmUp } = paceOf(options);
  const figures = await footprint(stage, { rounds, seconds, warmUp });
  say(asText(footprintTable(figures)));
  return { rounds, figures };
}

async function traced(stage: Stage, options: Options): Promise<NonNullable<Report['tracing']>> {
  const [workload] = options.workloads;
  const [sidecar] = peersOf(undefined);
  if (workload === undefined || sidecar === undefined) throw new Error('nothing to compare');
  const found = await tracingCost(stage, workload, sidecar, paceOf(options));
  say(asText(differenceTable(found.result, found.titles)));
  return found;
}

function paceOf({ rounds = 5, seconds, warmUp, latency, rate }: Options): Pace {
  return { rounds, seconds, warmUp, latency, rate };
}

async function main(args: readonly string[]): Promise<number> {
  let options: Options;
  try {
    if (args.includes('--help')) {
      say(usage);
      return 0;
    }
    options = parseOptions(args);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${usage}`);
    return 2;
  }
  try {
    const report = await run(options);
    if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(report, undefined, 2)}\n`);
    if (options.writeDocs) await writeDocs(report);
    return 0;
  } catch (error) {
    console.error((error as Error).message);
    return 1;
  }
}

process.exitCode = await main(process.argv.slice(2));

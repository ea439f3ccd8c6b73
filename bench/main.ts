import { writeFileSync } from 'node:fs';
import { addedLatency } from './added-latency.ts';
import { blocks, measuredIn } from './blocks.ts';
import { cpuCosts, type CostPace, type CpuCosts } from './cpu-cost.ts';
import { writeDocs } from './docs.ts';
import { footprint } from './footprint.ts';
import { growth } from './growth.ts';
import { describeMachine, hasCommand } from './machine.ts';
import { parseOptions, usage, type Options } from './options.ts';
import { peersOf, takes, type Peer } from './peers.ts';
import type { Report } from './report.ts';
import { measure, type Pace, type Result } from './rounds.ts';
import { sealCost } from './seals.ts';
import { buildSidecar } from './sidecar.ts';
import { withStage, type Stage } from './stage.ts';
import { asText, costTable, workloadTable } from './table.ts';
import { optionCosts } from './option-costs.ts';
import { workloads, type Workload } from './workloads.ts';

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
  return withStage(async (stage) => {
    if (options.command === 'growth') return { ...report, growth: await grow(stage, options) };
    if (options.command === 'latency') return { ...report, latency: await latency(stage, options) };
    if (options.command === 'footprint') return { ...report, footprint: await footprints(stage, options) };
    if (options.command === 'options') return { ...report, options: await withOptions(stage, options) };
    if (options.command === 'seals') return { ...report, seals: await sealCost(stage, paceOf(options)) };
    if (options.command === 'cost') return { ...report, cost: await costs(stage, options) };
    return { ...report, compare: await compare(stage, options) };
  });
}

async function compare(stage: Stage, options: Options): Promise<NonNullable<Report['compare']>> {
  const pace = paceOf(options);
  const peers = present(peersOf(options.baseline), options.peers);
  const titles = Object.fromEntries(peers.map(({ name, title }) => [name, title]));
  const results: Result[] = [];
  for (const workload of options.workloads) {
    say(`measuring ${workload.title}, ${workload.connections} connections`);
    const taking = peers.filter((peer) => takes(peer, workload));
    const result = await measure(stage, workload, taking, pace);
    say(asText(workloadTable(result, titles)));
    results.push(result);
  }
  return { pace, titles, results };
}

/** By default, the peers are the usual alternatives to the sidecar. */
async function latency(stage: Stage, options: Options): Promise<NonNullable<Report['latency']>> {
  const { rounds = 5, seconds, warmUp } = options;
  const workload = workloads.find(({ name }) => name === 'pass-get');
  if (workload === undefined) throw new Error('no workload');
  const peers = present(peersOf(options.baseline), options.peers ?? ['sidecar', 'nginx-lua', 'go']);
  const titles = Object.fromEntries(peers.map(({ name, title }) => [name, title]));
  const added = await addedLatency(stage, workload, peers, { rounds, seconds, warmUp });
  return { rounds, titles, added };
}

/** The selected peers that can run. Reports why the others cannot. */
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

async function grow(stage: Stage, { rounds = 3, seconds, warmUp }: Options): Promise<NonNullable<Report['growth']>> {
  return growth(stage, { rounds, seconds, warmUp }, (what) => say(`measuring ${what}`));
}

async function footprints(stage: Stage, options: Options): Promise<NonNullable<Report['footprint']>> {
  const { rounds, seconds, warmUp } = paceOf(options);
  return { rounds, figures: await footprint(stage, { rounds, seconds, warmUp }) };
}

async function withOptions(stage: Stage, options: Options): Promise<NonNullable<Report['options']>> {
  return optionCosts(stage, firstOf(options.workloads), peerOf('sidecar'), costPaceOf(options));
}

/** By default, the peers are the sidecar, the floor, and the baseline if there is one. */
async function costs(stage: Stage, options: Options): Promise<NonNullable<Report['cost']>> {
  const usual = new Set(['sidecar', 'baseline', 'floor']);
  const peers = present(
    peersOf(options.baseline).filter(({ name }) => options.peers !== undefined || usual.has(name)),
    options.peers,
  );
  const found: CpuCosts[] = [];
  for (const workload of options.workloads.length === workloads.length ? [firstOf(workloads)] : options.workloads) {
    const each = await cpuCosts(
      stage,
      workload,
      peers.filter((peer) => takes(peer, workload)),
      costPaceOf(options),
    );
    say(`${measuredIn(each)}\n\n${asText(costTable(each))}`);
    found.push(each);
  }
  return found;
}

function firstOf([workload]: readonly Workload[]): Workload {
  if (workload === undefined) throw new Error('no workload');
  return workload;
}

function peerOf(name: string): Peer {
  const peer = peersOf(undefined).find((each) => each.name === name);
  if (peer === undefined) throw new Error(`no peer ${name}`);
  return peer;
}

/** `--rounds` sets the number of sets of processes. */
function costPaceOf({ rounds: sets = 3, warmUp }: Options): CostPace {
  return { sets, warmUp, windows: 30, window: 500 };
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
    for (const { content } of blocks) {
      for (const part of content(report) ?? []) say(typeof part === 'string' ? part : `\n${asText(part)}\n`);
    }
    if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(report, undefined, 2)}\n`);
    if (options.writeDocs) await writeDocs(report);
    return 0;
  } catch (error) {
    console.error((error as Error).message);
    return 1;
  }
}

process.exitCode = await main(process.argv.slice(2));

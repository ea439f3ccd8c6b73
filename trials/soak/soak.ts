import { setTimeout } from 'node:timers/promises';
import { count } from '../../bench/table.ts';
import type { Findings } from '../load/command-line.ts';
import { type Contents, MountedFolder } from '../../test/support/folder.ts';
import { seenTwice } from '../load/core.ts';
import { accountsOf, pairOf, type Version } from '../load/pair.ts';
import { everyFeature, startBacking, type Backing } from '../load/every-feature.ts';
import { Operators } from '../load/operators.ts';
import { startLoadedSidecar, type LoadedSidecar } from '../load/sidecar.ts';
import type { Defer } from '../load/stage.ts';
import { startSoakCore } from './core.ts';
import { Crowd } from './kinds.ts';
import { Sampler, type Sample } from './sampler.ts';
import { trendOf, type Series, type Trend } from './trend.ts';

/** The number of samples. Garbage is collected for one in `collectedEvery` of them. */
const samplesInAll = 240;
const collectedEvery = 6;
/** The number of reloads, at most one a second. */
const reloads = 100;
/**
 * How many more descriptors may be open after the load than before it. A thread or a first look-up may keep some open.
 */
const filesLeftOpen = 5;
/**
 * The shortest run, in minutes, whose memory is judged. A shorter one consists only of warm-up, so its memory is only
 * printed.
 */
const judgedFrom = 2;
/**
 * How long it may take after the load until everything is released, in milliseconds. Idle connections to the database
 * are kept for 30 s.
 */
const settling = 40_000;

const mebibyte = 1_024 ** 2;
const megabytes = (bytes: number): string => `${(bytes / mebibyte).toFixed(1)} MiB`;

const timeouts = {
  // These two timeouts are long enough for a busy machine, and short enough for the clients that wait for them.
  connect: '5s',
  upstream: '5s',
  header: '10s',
  request: '60s',
  idle: '75s',
  drain: '25s',
};

/** Puts a steady load of all kinds of clients on one sidecar. The resources that it uses must not grow. */
export async function runSoak(minutes: number, defer: Defer): Promise<Findings> {
  const backing = await startBacking(defer);
  const server = { ca: backing.ca, ...backing.server };
  const pair = pairOf(await startSoakCore('one', defer, server), await startSoakCore('two', defer, server));
  const [one, two] = await Promise.all([contentsIn(backing, pair[0], pair[1]), contentsIn(backing, pair[1], pair[0])]);
  const folder = new MountedFolder(one, defer);
  const sidecar = await startLoadedSidecar(folder.file('sidecar.yaml'), defer, {
    nodeOptions: ['--inspect=127.0.0.1:0'],
    listeners: 3,
  });
  const sampler = await Sampler.of(sidecar, defer);
  const samples = [await sampler.sample(true)];

  let ids = 0;
  const tls = { ca: backing.ca, ...backing.client };
  const crowd = new Crowd({ pair, port: sidecar.port, tls, id: () => `soak-${(ids += 1)}` });
  const operatorsFaults: string[] = [];
  const operators = new Operators(Number(new URL(sidecar.operatorsUrl ?? '').port), tls, operatorsFaults);
  const time = minutes * 60_000;
  const end = performance.now() + time;
  let reloaded = 0;
  const reloading = (async () => {
    for (const pause = Math.max(1_000, time / reloads); performance.now() < end;) {
      await setTimeout(pause);
      reloaded += 1;
      folder.swap(reloaded % 2 === 0 ? one : two);
      await sidecar.untilEntries('configuration reloaded', reloaded);
    }
  })();
  while (performance.now() < end) {
    await setTimeout(time / samplesInAll);
    samples.push(await sampler.sample(samples.length % collectedEvery === 0));
  }
  await Promise.all([crowd.end(), operators.leave(), reloading]);
  samples.push(await settled(sampler, samples[0]));

  const trends = seriesOf(samples, minutes >= judgedFrom).map(trendOf);
  const turns = [...crowd.turns].map(([kind, done]) => [kind, count(done)]);
  return {
    title: `${minutes} minutes, ${count(ids)} requests, ${reloaded} reloads, ${samples.length} samples`,
    tables: [
      [['', 'start', 'after warm-up', 'median', 'max', 'end', 'growth in 2nd half', 'allowed'], ...trends.map(line)],
      [['clients', 'turns'], ...turns],
    ],
    problems: [
      ...crowd.problems,
      ...operatorsFaults,
      ...(backing.traceBatches() === 0 ? ['no trace was sent'] : []),
      ...seenTwice(pair[0].core, pair[1].core),
      ...complaintsOf(sidecar),
      ...leftOpen(samples),
      ...trends.filter(grows).map(complaintOf),
    ],
  };
}

/** The configuration of one version, whose accounts are in a separate database. */
async function contentsIn(backing: Backing, version: Version, other: Version): Promise<Contents> {
  const database = await backing.databaseOf(accountsOf(version, other));
  const options = { core: version.core.origin, accounts: { database }, tls: true, timeouts };
  return { 'sidecar.yaml': everyFeature(backing, options) };
}

/** The last sample, taken when all resources are released or when the time for that is over. */
async function settled(sampler: Sampler, first: Sample | undefined): Promise<Sample> {
  for (const end = performance.now() + settling; ; await setTimeout(100)) {
    const sample = await sampler.sample(true);
    const free = sample.inFlight === 0 && sample.files <= (first?.files ?? 0) + filesLeftOpen;
    if (free || performance.now() > end) return sample;
  }
}

function seriesOf(samples: readonly Sample[], judged: boolean): Series[] {
  const all = (name: string, of: (sample: Sample) => number, allowed: Series['allowed']): Series => ({
    name,
    points: samples.map((sample) => ({ at: sample.at, value: of(sample) })),
    allowed: judged ? allowed : undefined,
  });
  const collected = (name: string, of: 'heap' | 'buffers', least: number): Series => ({
    name,
    points: samples.flatMap((sample) =>
      sample.collected === undefined ? [] : [{ at: sample.at, value: sample.collected[of] }],
    ),
    allowed: judged ? (median) => Math.max(least, median / 20) : undefined,
  });
  const few = (median: number): number => Math.max(3, median / 10);
  return [
    collected('heap after GC', 'heap', mebibyte),
    collected('buffers after GC', 'buffers', 4 * mebibyte),
    all(
      'resident memory',
      ({ rss }) => rss,
      (median) => median / 10,
    ),
    all('open files', ({ files }) => files, few),
    all('of them sockets', ({ sockets }) => sockets, few),
    all('in flight', ({ inFlight }) => inFlight, few),
  ];
}

function line({ name, start, warm, median, max, end, growth, allowed }: Trend): string[] {
  const write = /heap|buffers|memory/.test(name) ? megabytes : (value: number): string => value.toFixed(0);
  const values = [start, warm, median, max, end, growth].map(write);
  return [name, ...values, allowed === undefined ? '' : write(allowed)];
}

/** Whether a series grows more than allowed. Unknown growth counts as growth. */
function grows({ growth, allowed }: Trend): boolean {
  return allowed !== undefined && !(growth <= allowed);
}

function complaintOf({ name, growth, allowed }: Trend): string {
  return `${name} grows: by ${growth.toFixed(1)} in the second half, ${allowed?.toFixed(1)} are allowed`;
}

/** Log lines that the load causes. TLS handshakes fail because slow clients do not complete them. */
const caused = /^(?:request|TLS handshakes failed)$/;

/** The problems in the sidecar's log. */
function complaintsOf({ log }: LoadedSidecar): string[] {
  return log
    .filter(({ level, msg }) => level !== 'info' && !caused.test(String(msg)))
    .map((entry) => JSON.stringify(entry));
}

function leftOpen(samples: readonly Sample[]): string[] {
  const [first, last] = [samples[0], samples.at(-1)];
  const problems: string[] = [];
  if (last === undefined || last.inFlight > 0) problems.push(`${last?.inFlight} requests are still in flight`);
  if (first === undefined || last === undefined || last.files > first.files + filesLeftOpen) {
    problems.push(`${last?.files} files are open, before the load there were ${first?.files}`);
  }
  return problems;
}

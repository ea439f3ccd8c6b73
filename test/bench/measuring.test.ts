import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { blocks } from '../../bench/blocks.ts';
import { cpuSeconds, peakMemory, residentMemory } from '../../bench/cpu-time.ts';
import { runFixedRate, writeRequests } from '../../bench/load.ts';
import { describeMachine } from '../../bench/machine.ts';
import { rowsOf } from '../../bench/report.ts';
import type { Result, Sample } from '../../bench/rounds.ts';
import { percentile, spreadOf } from '../../bench/statistics.ts';
import { workloads } from '../../bench/workloads.ts';
import { Folder } from '../support/folder.ts';
import { listen } from '../support/listen.ts';

describe('the CPU time', () => {
  const burn = (milliseconds: number): string =>
    `while (process.cpuUsage().user + process.cpuUsage().system < ${milliseconds * 1_000}); console.log('done');`;

  test.each([
    ['of a process', [process.execPath, '--eval', `${burn(300)} setInterval(() => {}, 1000)`]],
    [
      'of a process below it',
      ['sh', '-c', `"$0" --eval "$1" & wait`, process.execPath, `${burn(300)} setInterval(() => {}, 1000)`],
    ],
  ])('%s is counted', async (_where, [command = '', ...args]) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'], detached: true });
    onTestFinished(() => void process.kill(-(child.pid ?? 0), 'SIGKILL'));
    await once(child.stdout, 'data');
    const pid = child.pid ?? 0;
    expect(cpuSeconds(pid)).toBeGreaterThanOrEqual(0.28);
    expect(residentMemory(pid)).toBeGreaterThan(10_000_000);
    const resident = residentMemory(pid);
    expect(peakMemory(pid)).toBeGreaterThanOrEqual(resident);
  });

  test('of a process that has ended is zero', () => {
    expect(cpuSeconds(2 ** 30)).toBe(0);
  });
});

test('a stall adds to the latency of every request that had to wait for it', async () => {
  // The server responds at once, except from 500 to 1,000 milliseconds after the first request.
  let begin: number | undefined;
  const server = createServer((socket: Socket) => {
    socket.on('data', () => {
      begin ??= performance.now();
      const now = performance.now() - begin;
      const response = (): void => void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
      if (now > 500 && now < 1_000) setTimeout(response, 1_000 - now);
      else response();
    });
    socket.on('error', () => {});
  });
  const port = await listen(server);
  const file = new Folder({}).file('requests');
  writeRequests(file, [Buffer.from('GET / HTTP/1.1\r\n\r\n')]);

  const { p50, p99 } = await runFixedRate(port, file, 200, 1.5);

  // A hundred of the three hundred requests are sent during the stall. The first of them waits for half a second.
  expect(p99).toBeGreaterThan(400);
  expect(p50).toBeLessThan(p99);
});

test.each([
  [[3], { median: 3, min: 3, max: 3 }],
  [[4, 1], { median: 2.5, min: 1, max: 4 }],
  [[9, 1, 5], { median: 5, min: 1, max: 9 }],
  [[4, 3, 2, 1], { median: 2.5, min: 1, max: 4 }],
])('finds the median and range of %j', (values, spread) => {
  expect(spreadOf(values)).toEqual(spread);
});

test('a percentile is a value that occurred', () => {
  const values = Array.from({ length: 100 }, (_, i) => i + 1);
  expect([1, 50, 99, 100].map((percent) => percentile(values, percent))).toEqual([1, 50, 99, 100]);
  expect([50, 99].map((percent) => percentile([7], percent))).toEqual([7, 7]);
});

test('a ratio is computed within a round', () => {
  const [workload] = workloads;
  if (workload === undefined) throw new Error('no workloads');
  const sample = (peer: string, requestsPerCpuSecond: number): Sample => ({
    peer,
    requestsPerCpuSecond,
    requestsPerSecond: 1,
    busy: 1,
  });
  // The machine is ten times slower in the second round. In the third, it is half as fast as in the first.
  const rounds = [
    [sample('sidecar', 2_000), sample('go', 1_000)],
    [sample('go', 100), sample('sidecar', 190)],
    [sample('sidecar', 1_050), sample('go', 500)],
  ];
  const rows = rowsOf({ workload, rounds, peakMemory: {} });
  expect(rows.map(({ peer }) => peer)).toEqual(['sidecar', 'go']);
  expect(rows.map(({ ratio }) => ratio)).toEqual([undefined, { median: 2, min: 1.9, max: 2.1 }]);
});

test('the cost of seals is shown as ratios within each round', () => {
  const beside = (milliseconds: number, busy: number) => ({ p50: milliseconds, p99: 2 * milliseconds, busy });
  // The machine is ten times slower in the second round.
  const rounds = [
    { without: beside(1, 0.1), with: beside(2, 0.4) },
    { without: beside(10, 0.2), with: beside(30, 0.4) },
  ];
  const report = { date: '2026-11-22', machine: describeMachine(), seals: { requests: 500, seals: 1_000, rounds } };
  const [how, table] = blocks.find(({ name }) => name === 'seals')?.content(report) ?? [];
  expect(how).toBe('500 enveloped POSTs of 350 B a second, median and range of 2 rounds.');
  expect(table).toEqual([
    ['', 'without seals', 'with 1,000 seals/s', 'ratio'],
    ['p50, ms', '5.50 (1.00–10.00)', '16.00 (2.00–30.00)', '2.50 (2.00–3.00)'],
    ['share of a core used', '0.15 (0.10–0.20)', '0.40', '3.00 (2.00–4.00)'],
  ]);
});

test('the performance page shows ratios for large bodies, and the peak memory over all workloads', () => {
  const sample = (peer: string): Sample => ({ peer, requestsPerCpuSecond: 1, requestsPerSecond: 1, busy: 1 });
  const of = (name: string, peer: string, peakMemory: number): Result => {
    const workload = workloads.find((each) => each.name === name);
    if (workload === undefined) throw new Error(`no workload ${name}`);
    return {
      workload,
      rounds: [[sample('sidecar'), sample(peer)]],
      peakMemory: { sidecar: 2 ** 20, [peer]: peakMemory },
    };
  };
  const compare = {
    pace: { rounds: 1, seconds: 1, warmUp: 0, latency: false, rate: undefined },
    titles: { sidecar: 'Sidecar', floor: 'Floor', go: 'Go' },
    results: [of('envelope-350', 'floor', 2 ** 21), of('sealed-1m', 'go', 3 * 2 ** 20)],
  };
  const report = { date: '2026-11-22', machine: describeMachine(), compare };
  const content = blocks.find(({ name }) => name === 'compare')?.content(report) ?? [];
  expect(content.filter((part) => typeof part !== 'string')).toEqual([
    [
      ['', 'Go'],
      ['GET of 1 MB, sealed', '1.00'],
    ],
    [
      ['', 'MB'],
      ['Sidecar', '1'],
      ['Floor', '2'],
      ['Go', '3'],
    ],
  ]);
});

import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Clients } from './clients.ts';
import { cpuNanoseconds } from './cpu-time.ts';
import { exchangesOf, knownMerchants } from './exchanges.ts';
import { freePort } from '../test/support/free-port.ts';
import { project, sidecarCommand } from './sidecar.ts';
import { withStage, type Stage } from './stage.ts';
import { workloads } from './workloads.ts';

/**
 * Prints where the CPU time of an enveloped exchange is spent. The sidecar runs from `src/`, so that the folder of each function is known.
 */

/** The parts to which a sample's code can belong. The first match counts. A line of `perf report` is "12.34%  DSO  [.] SYMBOL". */
const parts: readonly (readonly [part: string, form: RegExp])[] = [
  ['kernel: TCP on loopback', /\[k\] /],
  ['ciphers and hashes: OpenSSL and its binding', /\[\.\] .*(?:aesni|crypto|EVP_|ossl_|sha256|Cipher)/i],
  ['garbage collection', /\[\.\] .*v8::.*(?:Scaveng|Sweep|Evacuat|Mark(?:ing|er)|GlobalHandles)/],
  ['malloc, free, copies', /libc\S*\s.*(?:alloc|free|mem(?:move|cpy|set|chr)|unlink_chunk)/],
  ['src/http1', /src\/http1\/|RegExp/],
  ['src/proxy', /src\/proxy\//],
  ['src/upstream', /src\/upstream\//],
  ['src/envelope', /src\/envelope\//],
  ['src/telemetry', /src\/telemetry\//],
  ['other folders of src', /\/src\//],
  ["JavaScript of Node's sockets and buffers", /JS:.*node:/],
  ["V8's built-in functions", /Builtins_|v8::/],
  ["Node's C++, libuv, the C library", /./],
];

const warmUp = 15_000;
const seconds = 10;

interface Profile {
  /** The CPU microseconds of an exchange. */
  readonly cost: number;
  /** The percentage of each part. */
  readonly shares: ReadonlyMap<string, number>;
}

async function profile(stage: Stage): Promise<Profile> {
  const [workload] = workloads;
  if (workload === undefined) throw new Error('no workload');
  const directory = join(stage.directory, 'profile');
  mkdirSync(directory);
  const port = await freePort();
  const command = sidecarCommand(project, { directory, port, upstream: stage.upstream, merchants: knownMerchants });
  const args = command.args.map((arg) => (arg === join(project, 'dist/main.js') ? join(project, 'src/main.ts') : arg));
  const { pid } = await stage.processes.startServer({ ...command, args: ['--perf-basic-prof', ...args] }, port, {
    cores: stage.cores.server,
    output: join(directory, 'output.log'),
  });
  const requests = exchangesOf(workload).map(({ request }) => request);
  const clients = new Clients(port, requests, workload.connections);
  try {
    await sleep(warmUp);
    const [cpu, answered] = [cpuNanoseconds(pid), clients.answered];
    await sleep(seconds * 1_000);
    const cost = (cpuNanoseconds(pid) - cpu) / 1_000 / (clients.answered - answered);
    const file = join(directory, 'perf.data');
    await perf(['record', '-F', '2000', '-o', file, '-p', String(pid), '--', 'sleep', String(seconds)]);
    return { cost, shares: sharesIn(await perf(['report', '-i', file, '--sort', 'dso,symbol', '--stdio'])) };
  } finally {
    clients.stop();
  }
}

async function perf(args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('perf', args, { maxBuffer: 64 * 1_048_576 });
  return stdout;
}

function sharesIn(report: string): ReadonlyMap<string, number> {
  const shares = new Map(parts.map(([part]) => [part, 0]));
  for (const line of report.split('\n')) {
    const share = /^\s*([\d.]+)%/.exec(line)?.[1];
    const part = parts.find(([, form]) => form.test(line))?.[0];
    if (share !== undefined && part !== undefined) shares.set(part, (shares.get(part) ?? 0) + Number(share));
  }
  return shares;
}

const { cost, shares } = await withStage(profile);
console.log(`${'part'.padEnd(46)}  share        µs`);
for (const [part, share] of [...shares].toSorted(([, a], [, b]) => b - a)) {
  console.log(
    `${part.padEnd(46)}${`${share.toFixed(1)} %`.padStart(7)}${((share / 100) * cost).toFixed(1).padStart(10)}`,
  );
}
console.log(`${'all'.padEnd(53)}${cost.toFixed(1).padStart(10)}`);

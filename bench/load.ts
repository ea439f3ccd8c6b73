import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The counts that wrk reports. */
export interface Load {
  readonly requests: number;
  readonly seconds: number;
  /** The number of responses with a status of 400 and above. */
  readonly refused: number;
  /** The number of broken connections and missing responses. */
  readonly failed: number;
}

/** Milliseconds from the moment at which a request was due. */
export interface Latency {
  readonly p50: number;
  readonly p99: number;
}

/** Writes requests for `load.lua` and `fixed-rate.ts`, each after a line with its length. */
export function writeRequests(file: string, requests: readonly Buffer[]): void {
  writeFileSync(file, Buffer.concat(requests.flatMap((request) => [Buffer.from(`${request.length}\n`), request])));
}

/** Sends as many requests as the server can serve, over this many connections. */
export async function runLoad(port: number, file: string, connections: number, seconds: number): Promise<Load> {
  const script = fileURLToPath(new URL('load.lua', import.meta.url));
  const limits = ['--threads', '1', '--connections', String(connections), '--duration', `${seconds}s`];
  const output = await run('wrk', [...limits, '--timeout', '10s', '--script', script, urlOf(port), '--', file]);
  return JSON.parse(output.slice(output.lastIndexOf('{'))) as Load;
}

/** Sends this many requests a second over this many connections, whether or not the server keeps up. */
export async function runFixedRate(
  port: number,
  file: string,
  rate: number,
  seconds: number,
  connections = 64,
): Promise<Latency> {
  const program = fileURLToPath(new URL('fixed-rate.ts', import.meta.url));
  const numbers = [rate, seconds, connections].map(String);
  return JSON.parse(await run(process.execPath, [program, String(port), file, ...numbers])) as Latency;
}

function urlOf(port: number): string {
  return `http://127.0.0.1:${port}/`;
}

/** Runs a command on the same cores as this process. Returns its output. */
function run(command: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    let errors = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve(output);
      else reject(new Error(`${command} ended with ${code}: ${errors}${output}`));
    });
  });
}

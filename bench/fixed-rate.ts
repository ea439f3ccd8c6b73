import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { ResponseReader } from './response-reader.ts';
import { percentile } from './statistics.ts';

/**
 * Sends requests at a fixed rate, however late the responses are, and prints their latencies as a line of JSON. This is
 * a separate program: `node bench/fixed-rate.ts PORT REQUESTS_FILE RATE SECONDS CONNECTIONS`.
 *
 * A latency is measured from the moment at which the request was due, not from when it could be sent, so that a stall
 * adds to the latency of every request that had to wait (no "coordinated omission").
 */
const [port = 0, , rate = 0, seconds = 0, open = 0] = process.argv.slice(2).map(Number);
const requests = readRequests(process.argv[3] ?? '');
const total = Math.floor(rate * seconds);
const startedAt = performance.now() + 50;
const latencies = new Float64Array(total);
let due = 0;
let answered = 0;

/** The due times of requests that wait for a connection. */
const waiting: number[] = [];
const idle: Connection[] = [];
const connections: Connection[] = [];

class Connection {
  readonly #socket: Socket;
  #dueAt = 0;

  constructor() {
    this.#socket = connect(port, '127.0.0.1');
    this.#socket.setNoDelay(true);
    const reader = new ResponseReader(({ status }) => this.#answered(status), false);
    this.#socket.on('data', (chunk: Buffer) => reader.push(chunk));
    this.#socket.on('close', () => {
      if (answered < total) throw new Error('the server closed a connection');
    });
  }

  send(dueAt: number): void {
    this.#dueAt = dueAt;
    this.#socket.write(requests[due % requests.length] as Buffer);
  }

  end(): void {
    this.#socket.destroy();
  }

  #answered(status: number): void {
    if (status !== 200) throw new Error(`answered with ${status}`);
    latencies[answered] = performance.now() - this.#dueAt;
    answered += 1;
    const next = waiting.shift();
    if (next === undefined) idle.push(this);
    else this.send(next);
  }
}

function readRequests(path: string): Buffer[] {
  const file = readFileSync(path);
  const found: Buffer[] = [];
  for (let at = 0; at < file.length;) {
    const line = file.indexOf('\n', at);
    const end = line + 1 + Number(file.toString('latin1', at, line));
    found.push(file.subarray(line + 1, end));
    at = end;
  }
  return found;
}

/**
 * Waits for a tenth of a millisecond, which is too short for Node's timers, and leaves the core to the upstream in the
 * meantime.
 */
const never = new Int32Array(new SharedArrayBuffer(4));

function tick(): void {
  const now = performance.now();
  for (; due < total; due += 1) {
    const dueAt = startedAt + (due / rate) * 1_000;
    if (dueAt > now) break;
    const connection = idle.pop();
    if (connection === undefined) waiting.push(dueAt);
    else connection.send(dueAt);
  }
  if (answered === total) {
    finish();
  } else if (now > startedAt + seconds * 1_000 + 10_000) {
    throw new Error(`${total - answered} of ${total} requests were not answered`);
  } else {
    Atomics.wait(never, 0, 0, 0.05);
    setImmediate(tick);
  }
}

function finish(): void {
  for (const connection of connections) connection.end();
  const sorted = latencies.toSorted();
  process.stdout.write(`${JSON.stringify({ p50: percentile(sorted, 50), p99: percentile(sorted, 99) })}\n`);
}

for (let i = 0; i < open; i += 1) {
  const connection = new Connection();
  connections.push(connection);
  idle.push(connection);
}
tick();

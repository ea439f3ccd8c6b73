/** One kind of traffic with which all peers are measured. */
export interface Workload {
  readonly name: string;
  readonly title: string;
  /**
   * `enveloped` requests are from accounts that encrypt, on a route that opens and seals; `plain` requests are from
   * accounts that do not encrypt, and are passed through; `refused` requests have unknown API keys.
   */
  readonly kind: 'enveloped' | 'plain' | 'refused';
  readonly connections: number;
  /** The size in bytes of the request's body before it is sealed. If absent, the request is a GET. */
  readonly sent?: number;
  /** The size in bytes of the upstream's response before it is sealed, if the request is forwarded. */
  readonly answered: number;
  /** Whether latencies are also measured, at a fixed rate. */
  readonly latency: boolean;
  /** The goals for the ratio of requests per CPU-second, by peer. */
  readonly goals?: Readonly<Record<string, number>>;
}

const kilobyte = 1_024;
const megabyte = 1_024 ** 2;
const small = { kind: 'enveloped', sent: 350, answered: 156 } as const;

export const workloads: readonly Workload[] = [
  {
    name: 'envelope-350',
    title: 'Enveloped POST 350 B → 156 B',
    ...small,
    connections: 32,
    latency: true,
    goals: { floor: 1.25, go: 1.5, 'nginx-lua': 0.8, 'http-proxy': 4 },
  },
  {
    name: 'envelope-350-c1',
    title: 'The same on 1 connection',
    ...small,
    connections: 1,
    latency: false,
    goals: { floor: 1.15, go: 1.05, 'nginx-lua': 0.65, 'http-proxy': 2.8 },
  },
  {
    name: 'envelope-350-c1000',
    title: 'The same on 1,000 connections',
    ...small,
    connections: 1_000,
    latency: false,
    goals: { floor: 1.1, go: 1.4, 'nginx-lua': 0.7, 'http-proxy': 3.2 },
  },
  {
    name: 'envelope-10k',
    title: 'Enveloped POST 10 KB → 10 KB',
    kind: 'enveloped',
    connections: 32,
    sent: 10 * kilobyte,
    answered: 10 * kilobyte,
    latency: true,
    goals: { floor: 1.5, go: 2.3, 'nginx-lua': 1.5, 'http-proxy': 2.8 },
  },
  {
    name: 'sealed-1m',
    title: 'GET of 1 MB, sealed',
    kind: 'enveloped',
    connections: 8,
    answered: megabyte,
    latency: false,
  },
  {
    name: 'pass-get',
    title: 'Pass-through GET of 156 B',
    kind: 'plain',
    connections: 32,
    answered: 156,
    latency: true,
    goals: { floor: 1.1, go: 1.6, 'nginx-lua': 0.65, 'http-proxy': 3.2 },
  },
  {
    name: 'pass-10m',
    title: 'Pass-through POST 10 MB → 10 MB',
    kind: 'plain',
    connections: 4,
    sent: 10 * megabyte,
    answered: 10 * megabyte,
    latency: false,
    goals: { go: 0.5, 'http-proxy': 1.8 },
  },
  {
    name: 'refused',
    title: 'Refusal of unknown keys, POST 350 B',
    kind: 'refused',
    connections: 32,
    sent: 350,
    answered: 156,
    latency: false,
    goals: { floor: 1, go: 1, 'nginx-lua': 0.6, 'http-proxy': 1.6 },
  },
];

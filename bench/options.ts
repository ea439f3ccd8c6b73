import { parseArgs } from 'node:util';
import { workloads, type Workload } from './workloads.ts';

export const usage = `npm run bench -- [COMMAND] [OPTIONS]

commands
  compare (default)  the sidecar and its peers, workload by workload
  growth             how the sidecar's costs grow: accounts, routes, bodies, connections
  latency            what the sidecar, nginx and Go add to the upstream's latency at 200 and 2,000 requests/s
  footprint          start, memory, and bytes that a request leaves behind, compared with their goals
  options            what a KMS and traces cost
  seals              what 1,000 seals a second through the operators' API cost merchants
  cost               the CPU time of a request, compared with the floor and a baseline, also on a busy machine

options
  --only NAMES       some workloads, by comma: ${workloads.map(({ name }) => name).join(', ')}
  --peers NAMES      some peers, by comma: sidecar, baseline, floor, nginx-lua, go, http-proxy, nginx
  --baseline DIR     another checkout, with its own node_modules and dist, to measure as the peer "baseline"
  --rounds N         rounds (5; growth 3); sets of processes (3) for options and cost
  --seconds N        of load for each peer in each round (1)
  --warm-up N        seconds of load before the first round, for what runs on Node (5; one for others)
  --rate N           requests a second for latencies, of all peers alike (half of what each can do, 10,000 at most)
  --no-latency       throughput only
  --json FILE        all figures of all rounds
  --write-docs       puts the tables into docs/performance.md
`;

const commands = ['compare', 'growth', 'latency', 'footprint', 'options', 'seals', 'cost'] as const;

export interface Options {
  readonly command: (typeof commands)[number];
  readonly workloads: readonly Workload[];
  /** The names of the peers; undefined stands for all. */
  readonly peers: readonly string[] | undefined;
  readonly baseline: string | undefined;
  readonly rounds: number | undefined;
  readonly seconds: number;
  readonly warmUp: number;
  readonly rate: number | undefined;
  readonly latency: boolean;
  readonly json: string | undefined;
  readonly writeDocs: boolean;
}

/** @throws if the command line is wrong */
export function parseOptions(args: readonly string[]): Options {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    allowNegative: true,
    options: {
      only: { type: 'string' },
      peers: { type: 'string' },
      baseline: { type: 'string' },
      rounds: { type: 'string' },
      seconds: { type: 'string', default: '1' },
      'warm-up': { type: 'string', default: '5' },
      rate: { type: 'string' },
      latency: { type: 'boolean', default: true },
      json: { type: 'string' },
      'write-docs': { type: 'boolean', default: false },
    },
  });
  const [command = 'compare', ...rest] = positionals;
  if (!isCommand(command) || rest.length > 0) throw new Error(`unknown command: ${positionals.join(' ')}`);
  return {
    command,
    workloads: chosen(values.only),
    peers: values.peers?.split(','),
    baseline: values.baseline,
    rounds: values.rounds === undefined ? undefined : whole('rounds', values.rounds),
    seconds: whole('seconds', values.seconds),
    warmUp: whole('warm-up', values['warm-up'], 0),
    rate: values.rate === undefined ? undefined : whole('rate', values.rate),
    latency: values.latency,
    json: values.json,
    writeDocs: values['write-docs'],
  };
}

function isCommand(word: string): word is Options['command'] {
  return (commands as readonly string[]).includes(word);
}

function chosen(names: string | undefined): readonly Workload[] {
  if (names === undefined) return workloads;
  return names.split(',').map((name) => {
    const workload = workloads.find((each) => each.name === name);
    if (workload === undefined) throw new Error(`unknown workload: ${name}`);
    return workload;
  });
}

function whole(option: string, text: string, least = 1): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < least)
    throw new Error(`--${option} takes a whole number from ${least}`);
  return number;
}

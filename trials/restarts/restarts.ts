import { count } from '../../bench/table.ts';
import type { Findings } from '../load/command-line.ts';
import type { Defer } from '../load/stage.ts';
import { runKills } from './kills.ts';
import type { Part } from './part.ts';
import { runReloads } from './reloads.ts';
import { runStops } from './stops.ts';

/** Reloads, stops and kills sidecars under load, `loops` times each. */
export async function runRestarts(loops: number, defer: Defer): Promise<Findings> {
  const parts = [await runReloads(loops, defer), await runStops(loops, defer), await runKills(loops, defer)];
  const line = ({ name, loops, answered, notTaken, keys, slowest, problems }: Part): string[] => [
    name,
    count(loops),
    count(answered),
    count(notTaken),
    keys === undefined ? '' : count(keys),
    slowest === undefined ? '' : `${count(slowest)} ms`,
    count(problems.length),
  ];
  return {
    title: `Each ${loops} times under the load of 8 merchants`,
    tables: [
      [['', 'times', 'answered', 'not taken', 'keys issued', 'longest start', 'failed or mixed'], ...parts.map(line)],
    ],
    problems: parts.flatMap(({ problems }) => problems),
  };
}

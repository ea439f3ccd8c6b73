import { postgresPrograms, startPostgres } from '../../test/support/postgres.ts';
import type { Findings } from '../load/command-line.ts';
import type { Defer } from '../load/stage.ts';
import { runFlood } from './flood.ts';
import { runManyKeys } from './many-keys.ts';
import { runRevocations } from './revocations.ts';
import { runSandbox } from './sandbox.ts';
import { setups, type ResourceOptions } from './setup.ts';

/** Runs each trial for this many seconds. Some trials run with several amounts of memory. */
export async function runResources(seconds: number, defer: Defer, options: ResourceOptions): Promise<Findings> {
  const { deployed, small } = setups();
  const floods = [];
  for (const setup of [deployed, small]) {
    floods.push(await runFlood(setup, 'without a secret key', seconds, defer, options));
  }
  floods.push(await runFlood(small, 'by compressed responses', seconds, defer, options));
  const sandbox = await runSandbox(seconds, defer, options);
  const postgres = postgresPrograms === undefined ? undefined : await startPostgres(defer);
  const revocations = await runRevocations(postgres, seconds, defer, options);
  const manyKeys = await runManyKeys(postgres, defer, options);
  return {
    title: `${seconds} seconds each`,
    tables: [
      [['', 'requests', 'median', 'longest', 'memory', 'of'], ...floods.map(({ line }) => line)],
      [['live', 'sandbox', 'idle', 'alone', 'attacked', 'longest', 'memory', 'judged'], sandbox.line],
      [['accounts in', '', 'beside', 'times', 'reads', 'revocations', 'median', 'longest'], ...revocations.lines],
      [['keys', 'listed by', 'memory', 'of'], ...manyKeys.lines],
    ],
    problems: [...floods, sandbox, revocations, manyKeys].flatMap(({ problems }) => problems),
  };
}

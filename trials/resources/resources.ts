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
  const attacks = await runAttacks(seconds, defer, options);
  const work = await runOperatorsWork(seconds, defer, options);
  return {
    title: attacks.title,
    tables: [...attacks.tables, ...work.tables],
    problems: [...attacks.problems, ...work.problems],
  };
}

/** Attacks merchants' listener, and the operators' with it. */
export async function runAttacks(seconds: number, defer: Defer, options: ResourceOptions): Promise<Findings> {
  const { deployed, small } = setups();
  const floods = [];
  for (const setup of [deployed, small]) {
    floods.push(await runFlood(setup, 'without a secret key', seconds, defer, options));
  }
  floods.push(await runFlood(small, 'by compressed responses', seconds, defer, options));
  const sandbox = await runSandbox(seconds, defer, options);
  return {
    title: titleOf(seconds),
    tables: [
      [['', 'requests', 'median', 'longest', 'memory', 'of'], ...floods.map(({ line }) => line)],
      [['live', 'sandbox', 'idle', 'alone', 'attacked', 'longest', 'memory', 'judged'], sandbox.line],
    ],
    problems: [...floods, sandbox].flatMap(({ problems }) => problems),
  };
}

/** Revokes keys beside commands that read or write all accounts, and lists the keys of an account that has far too many. */
export async function runOperatorsWork(seconds: number, defer: Defer, options: ResourceOptions): Promise<Findings> {
  const postgres = postgresPrograms === undefined ? undefined : await startPostgres(defer);
  const revocations = await runRevocations(postgres, seconds, defer, options);
  const manyKeys = await runManyKeys(postgres, defer, options);
  return {
    title: titleOf(seconds),
    tables: [
      [['accounts in', '', 'beside', 'times', 'reads', 'revocations', 'median', 'longest'], ...revocations.lines],
      [['keys', 'listed by', 'memory', 'of'], ...manyKeys.lines],
    ],
    problems: [...revocations.problems, ...manyKeys.problems],
  };
}

function titleOf(seconds: number): string {
  return `${seconds} seconds each`;
}

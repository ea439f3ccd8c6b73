import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import { workedExamples } from '../../test/support/memory-bound.ts';
import { startLoadedSidecar, type LoadedSidecar } from '../load/sidecar.ts';
import type { Defer } from '../load/stage.ts';
import type { Target } from './attack.ts';

export const mebibyte = 1_048_576;

/** The amount of memory of a sidecar, with the limits that docs/operators/capacity.md calculates for it. */
export interface Setup {
  readonly name: string;
  readonly mebibytes: number;
  readonly semiSpace: number;
  readonly limits: Target['limits'];
}

export function setups(): { readonly deployed: Setup; readonly small: Setup } {
  const [, small, deployed] = workedExamples(readFileSync('docs/operators/capacity.md', 'utf8'));
  if (small === undefined || deployed === undefined) throw new Error('docs/operators/capacity.md has no such examples');
  const setup = (name: string, mebibytes: number, { semiSpace, ...terms }: typeof small): Setup => {
    const { requestBody, buffered, header, inFlight, connections } = terms;
    // `headers` keeps its default.
    const limits = { requestBody, buffered, header, headers: 100, inFlight, connections };
    return { name, mebibytes, semiSpace: semiSpace / mebibyte, limits };
  };
  return { deployed: setup('as in deploy/', 256, deployed), small: setup('in 128 MiB', 128, small) };
}

export interface ResourceOptions {
  /** The program that `node` runs. If it is not compiled, it may use `more` additional bytes. */
  readonly program: string;
  readonly more?: number;
  /** How long a response to a merchant may take during the attack. Milliseconds. */
  readonly longestTime?: number;
  /** The maximum factor by which an attack or other work may slow down merchants or revocations. */
  readonly mostSlowed?: number;
  /** The number of keys of one account. */
  readonly keys?: number;
  /** The number of accounts in each store. */
  readonly accounts?: Readonly<Record<'file' | 'postgres', number>>;
}

/** Starts a sidecar with three listeners in this amount of memory. */
export function startUnder(
  { semiSpace, mebibytes }: Setup,
  config: string,
  defer: Defer,
  program: string,
): Promise<LoadedSidecar> {
  return startLoadedSidecar(config, defer, {
    program,
    listeners: 3,
    // These flags are those of the image, but the heap limit is absolute, because there is no container to take a share of.
    nodeOptions: [
      `--max-semi-space-size=${semiSpace}`,
      `--max-old-space-size=${Math.floor(0.35 * mebibytes)}`,
      '--no-memory-pool-share-memory-on-teardown',
    ],
    env: { MALLOC_ARENA_MAX: '1' },
  });
}

/** The addresses of a sidecar, for the attackers. */
export function targetOf({ port, adminUrl, operatorsUrl }: LoadedSidecar, limits: Target['limits']): Target {
  const portOf = (url: string | undefined): number => Number(new URL(url ?? '').port);
  return { merchants: port, admin: portOf(adminUrl), operators: portOf(operatorsUrl), limits };
}

/** The process of all attackers. */
export interface Attackers {
  /** The origin of the attackers' core. */
  readonly core: string;
  attack(kind: Attack, target: Target): void;
  stop(): void;
}

/** Which attacks to run: all that need no secret key, only compressed responses, or those with a secret key of the sandbox. */
export type Attack = 'without a secret key' | 'by compressed responses' | 'from the sandbox';

/** The message that starts the attackers. */
export interface Order {
  readonly kind: Attack;
  readonly target: Target;
}

export async function startAttackers(defer: Defer): Promise<Attackers> {
  const child = fork(fileURLToPath(new URL('attackers.ts', import.meta.url)), { stdio: 'inherit' });
  const stop = (): void => void child.kill('SIGKILL');
  defer(stop);
  // The attackers stand in for other machines, so their use of the CPU must not slow down the sidecar or lengthen the measured times.
  setPriority(child.pid ?? 0, constants.priority.PRIORITY_LOW);
  const [core] = (await once(child, 'message')) as [string];
  return { core, attack: (kind, target) => void child.send({ kind, target } satisfies Order), stop };
}

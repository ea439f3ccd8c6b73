import { program } from '../../trials/load/sidecar.ts';
import type { ResourceOptions } from '../../trials/resources/setup.ts';

/** The trial of resources with fewer accounts and keys, and generous, because other tests run on the same cores at the same time. */
export const resourceOptions: ResourceOptions = {
  program,
  // Node needs more memory if it runs the sources instead of compiled code.
  more: 32 * 1_048_576,
  longestTime: 10_000,
  mostSlowed: 50,
  accounts: { file: 20, postgres: 500 },
  keys: 5_000,
};

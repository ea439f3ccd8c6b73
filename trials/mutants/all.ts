import { envelopeMutants } from './envelope.ts';
import type { Mutant } from './mutant.ts';
import { upstreamMutants } from './upstream.ts';

/** Every mutant, by room. */
export const all: readonly Mutant[] = [...envelopeMutants, ...upstreamMutants];

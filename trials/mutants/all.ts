import { accountsFileMutants } from './accounts-file.ts';
import { accountsMutants } from './accounts.ts';
import { envelopeMutants } from './envelope.ts';
import type { Mutant } from './mutant.ts';
import { postgresMutants } from './postgres.ts';
import { parserMutants } from './response-parser.ts';
import { upstreamMutants } from './upstream.ts';

/** Every mutant, by room. */
export const all: readonly Mutant[] = [
  ...envelopeMutants,
  ...upstreamMutants,
  ...parserMutants,
  ...accountsMutants,
  ...accountsFileMutants,
  ...postgresMutants,
];

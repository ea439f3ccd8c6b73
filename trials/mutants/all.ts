import { accountsFileMutants } from './accounts-file.ts';
import { accountsMutants } from './accounts.ts';
import { admissionMutants } from './admission.ts';
import { envelopeMutants } from './envelope.ts';
import { gatewayMutants } from './gateway.ts';
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
  ...admissionMutants,
  ...gatewayMutants,
];

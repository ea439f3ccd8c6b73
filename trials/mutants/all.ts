import { accountsFileMutants } from './accounts-file.ts';
import { accountsMutants } from './accounts.ts';
import { admissionMutants } from './admission.ts';
import { connectionMutants } from './connections.ts';
import { consoleMutants } from './console.ts';
import { envelopeMutants } from './envelope.ts';
import { exchangeMutants } from './exchange.ts';
import type { Mutant } from './mutant.ts';
import { otherMutants } from './others.ts';
import { postgresMutants } from './postgres.ts';
import { headMutants } from './request-head.ts';
import { parserMutants } from './response-parser.ts';
import { responseMutants } from './responses.ts';
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
  ...headMutants,
  ...exchangeMutants,
  ...responseMutants,
  ...connectionMutants,
  ...consoleMutants,
  ...otherMutants,
];

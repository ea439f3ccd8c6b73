import type { Endpoint } from './endpoint.ts';
import { accountEndpoints } from './endpoints/accounts.ts';
import { auditEndpoints } from './endpoints/audit.ts';
import { diagnosisEndpoints } from './endpoints/diagnosis.ts';
import { encryptionEndpoints } from './endpoints/encryption.ts';
import { keyEndpoints } from './endpoints/keys.ts';
import { sealEndpoint } from './endpoints/seal.ts';
import { sidecarEndpoints } from './endpoints/sidecar.ts';

/** The path of the API. */
export const apiRoot = '/api/v1';

/** All operations of the API, below `apiRoot`. */
export const endpoints: readonly Endpoint[] = [
  ...sidecarEndpoints,
  ...accountEndpoints,
  ...keyEndpoints,
  ...encryptionEndpoints,
  sealEndpoint,
  ...auditEndpoints,
  ...diagnosisEndpoints,
];

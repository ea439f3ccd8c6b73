import type { Endpoint } from './endpoint.ts';
import { accountEndpoints } from './endpoints/accounts.ts';
import { auditEndpoints } from './endpoints/audit.ts';
import { configurationEndpoints } from './endpoints/configuration.ts';
import { diagnosisEndpoints } from './endpoints/diagnosis.ts';
import { encryptionEndpoints } from './endpoints/encryption.ts';
import { keyEndpoints } from './endpoints/keys.ts';
import { sessionEndpoints } from './endpoints/session.ts';
import { trafficEndpoints } from './endpoints/traffic.ts';

/** The path of the API. */
export const apiRoot = '/api/v1';

/** All operations of the API, below `apiRoot`. */
export const endpoints: readonly Endpoint[] = [
  ...sessionEndpoints,
  ...accountEndpoints,
  ...keyEndpoints,
  ...encryptionEndpoints,
  ...trafficEndpoints,
  ...auditEndpoints,
  ...configurationEndpoints,
  ...diagnosisEndpoints,
];

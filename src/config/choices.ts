import type { RefusalCode } from '../errors.ts';

/** The choices that members of the configuration have. */

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

/** What access lines contain of a client's address. */
export const clientDetails = ['none', 'truncated', 'full'] as const;

/** Each of these roles may do everything that the roles before it may do. */
export const rankedRoles = ['viewer', 'operator', 'admin'] as const;
/** The role `core`, of the payment core, may only seal. */
export const operatorRoles = [...rankedRoles, 'core'] as const;

export const httpMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;

/** Refusals that can be reported instead of enforced while routes are being introduced. */
export const reportableCodes = [
  'key_not_permitted',
  'method_not_allowed',
  'encryption_not_supported',
] as const satisfies readonly RefusalCode[];

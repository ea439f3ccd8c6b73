import type { RefusalCode } from '../errors.ts';

/** The values that members of the configuration can have. */

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

/** How much of a client's address access lines contain. */
export const clientDetails = ['none', 'truncated', 'full'] as const;

/** Each of these roles may do everything that the roles before it may do. */
export const rankedRoles = ['viewer', 'operator', 'admin'] as const;
/** All roles. The role `core`, for the payment core, may only seal. */
export const operatorRoles = [...rankedRoles, 'core'] as const;

export const httpMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;

/** Refusals that can be reported instead of enforced while routes are being introduced. */
export const reportableCodes = [
  'key_not_permitted',
  'method_not_allowed',
  'encryption_not_supported',
] as const satisfies readonly RefusalCode[];

import createClient from 'openapi-fetch';
import type { components, paths } from './api-types.ts';
import { endSession, isOfSession, sessionHeader, sessionSignal, unreachable } from './session.ts';
import { texts } from './texts.ts';

type Schemas = components['schemas'];
export type Account = Schemas['Account'];
export type ListedAccount = Schemas['ListedAccount'];
export type Use = Schemas['Use'];
export type ApiKey = Schemas['Key'];
export type UsedKey = Schemas['UsedKey'];
export type ShownKey = Schemas['ShownKey'];
export type IssuedKey = Schemas['IssuedKey'];
export type Encryption = Schemas['Encryption'];
export type EnabledEncryption = Schemas['EnabledEncryption'];
export type EnvironmentName = Encryption['environment'];
export type Refusal = Schemas['Activity']['refusals'][number];
export type GraceUse = Schemas['Activity']['grace_uses'][number];
export type AuditEvent = Schemas['Events']['events'][number];
export type AuditQuery = NonNullable<paths['/api/v1/audit']['get']['parameters']['query']>;
export type Due = Schemas['Due']['due'][number];
export type Overview = Schemas['Overview'];
export type Traffic = Schemas['Traffic'];
export type Member = Schemas['Configuration']['members'][number];
export type AccountFilter = NonNullable<NonNullable<paths['/api/v1/accounts']['get']['parameters']['query']>['filter']>;
type Problem = Schemas['Problem'];

/** A failed request from the page. The page shows the message. */
export class Refused extends Error {
  /** The problem's `code`, or `unreachable`. */
  readonly code: string;
  readonly requestId: string | undefined;
  /** What is wrong with members of the request, by member name. */
  readonly errors: Readonly<Record<string, string>>;

  constructor(code: string, message: string, requestId?: string, errors: Readonly<Record<string, string>> = {}) {
    super(message);
    this.code = code;
    this.requestId = requestId;
    this.errors = errors;
  }

  /** This refusal without the errors for these members, which are shown elsewhere; undefined if no error is left. */
  without(members: ReadonlySet<string>): Refused | undefined {
    const all = Object.entries(this.errors);
    const others = all.filter(([name]) => !members.has(name));
    if (others.length === all.length) return this;
    return others.length === 0 ? undefined : new Refused(this.code, listed(others), this.requestId);
  }
}

function listed(errors: readonly (readonly [member: string, message: string])[]): string {
  return errors.map(([member, message]) => `${member}: ${message}`).join('; ');
}

/** Runs `attempt`. Returns why it was refused; undefined if it succeeded. */
export async function catchRefusal(attempt: () => Promise<void>): Promise<Refused | undefined> {
  try {
    await attempt();
    return undefined;
  } catch (error) {
    if (error instanceof Refused) return error;
    throw error;
  }
}

/** Returns the non-empty members, for use in a query. */
export function given<Members extends object>(members: Members) {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== '')) as {
    [Name in keyof Members]?: Exclude<Members[Name], ''>;
  };
}

export const api = createClient<paths>({ baseUrl: location.origin });
api.use({
  onRequest: ({ request }) => {
    for (const [name, value] of Object.entries(sessionHeader())) request.headers.set(name, value);
    // A change is not cancelled: its outcome would be unknown.
    return request.method === 'GET' ? new Request(request, { signal: sessionSignal() }) : request;
  },
  // A late response to a request from the previous session must not end the next operator's session.
  onResponse: ({ request, response }) => {
    if (response.status === 401 && isOfSession(request.headers)) endSession();
  },
});

/**
 * Waits for a response and returns its body.
 *
 * @throws Refused
 */
export async function ask<Data>(
  asked: Promise<{ readonly data?: Data; readonly error?: unknown; readonly response: Response }>,
): Promise<NonNullable<Data>> {
  let response;
  try {
    response = await asked;
  } catch {
    unreachable.value = !sessionSignal().aborted;
    throw new Refused('unreachable', texts.unreachableShort);
  }
  unreachable.value = false;
  if (response.data !== undefined && response.data !== null) return response.data;
  const {
    code = 'internal_error',
    detail = '',
    errors = [],
    request_id: requestId,
  } = (response.error ?? {}) as Partial<Problem>;
  const members = errors.map(({ path, message }) => [path, message] as const);
  const message = texts.problems[code] ?? (members.length > 0 ? listed(members) : detail);
  throw new Refused(code, message, requestId, Object.fromEntries(members));
}

import type { Principal } from '../../accounts/key-directory.ts';
import type { ReportableCode } from '../../config/config.ts';
import type { Refusal } from '../../errors.ts';
import type { RequestTrace } from '../../telemetry/tracing.ts';
import type { Tier } from '../capacity/budgets.ts';
import type { RequestHead } from './head.ts';
import type { RouteMatch } from './router.ts';
import type { ActiveEncryption, Sealing } from './sealing.ts';
import type { ServedEnvironment } from './snapshot.ts';
import type { CipherTest } from './target.ts';

/** What is known about a request. Each step returns a new value with more facts; a value never changes. */
interface Facts {
  /** The client's own id if it is acceptable, otherwise a new one. */
  readonly id: string;
  /** The label of metrics: a configured pattern, `unlisted`, or `none` before routing. */
  readonly route: string;
  /** Whether a browser may read a refusal: the route is open to public keys. */
  readonly allowsCors: boolean;
  /** The test endpoint that serves the request; without one, the request goes to the upstream. */
  readonly test: CipherTest | undefined;
  /** Whether the request is for a test endpoint that this environment does not have: then the path is an ordinary one. */
  readonly testElsewhere: boolean;
  /** Whether the request's route has envelopes. A test endpoint has none. */
  readonly enveloped: boolean;
  /** The key and its account. For a refused request, also those of a revoked or expired key, for the log. */
  readonly principal: Principal | undefined;
  /** The tier that the request is charged as: a refused key proves nothing. */
  readonly tier: Tier;
  /** How the account encrypts here, decided when the head has arrived, so that a grace does not end within a request. */
  readonly encryption: ActiveEncryption | undefined;
  /** Whether the request's body was an envelope that opened. */
  readonly opened: boolean;
  /** How the response is sealed; undefined if the exchange is not enveloped. */
  readonly sealing: Sealing | undefined;
  /** The routes of the request's path and method; undefined before routing. */
  readonly match: RouteMatch | undefined;
  /** Refusals that are only reported. The request is forwarded as if the rule did not exist. */
  readonly reported: readonly ReportableCode[];
  /** Present if traces are configured. */
  readonly trace: RequestTrace | undefined;
}

/** A request that every check so far has let through. */
export interface Admitted extends Facts {
  readonly head: RequestHead;
  readonly environment: ServedEnvironment;
  readonly match: RouteMatch;
  readonly refusal: undefined;
}

/** A request that a check refused, with what was known by then. */
export interface Refused extends Facts {
  /** Undefined if the head itself is invalid. */
  readonly head: RequestHead | undefined;
  /** Undefined if no environment has the host. */
  readonly environment: ServedEnvironment | undefined;
  readonly refusal: Refusal;
}

export type Exchange = Admitted | Refused;

/** What is known about a request at first. */
export const nothingKnown: Omit<Facts, 'id' | 'match'> = {
  route: 'none',
  allowsCors: false,
  test: undefined,
  testElsewhere: false,
  enveloped: false,
  principal: undefined,
  tier: 'anonymous',
  encryption: undefined,
  opened: false,
  sealing: undefined,
  reported: [],
  trace: undefined,
};

/** The exchange of a request whose head is not known, or refused. */
export function refused(refusal: Refusal, id: string, head?: RequestHead): Refused {
  return { ...nothingKnown, id, head, environment: undefined, match: undefined, refusal };
}

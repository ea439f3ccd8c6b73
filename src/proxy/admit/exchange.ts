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
  /** The client's own request id if it is acceptable, otherwise a new one. */
  readonly id: string;
  /** The route's label in metrics: a configured pattern, `unlisted`, or `none` for a test endpoint and before routing. */
  readonly route: string;
  /** Whether a browser may read a refusal, because the route is open to public keys. */
  readonly allowsCors: boolean;
  /** The test endpoint that serves the request; undefined if the request goes to the upstream. */
  readonly test: CipherTest | undefined;
  /** Whether the request has the path of a test endpoint in an environment without test endpoints. The path is then an ordinary one. */
  readonly testElsewhere: boolean;
  /** Whether the request's route uses envelopes. The test endpoints do not. */
  readonly enveloped: boolean;
  /** The key and its account. If the key was refused because it is revoked or expired, both are kept for the log. */
  readonly principal: Principal | undefined;
  /** The tier whose quota the request counts against. A request with a refused key counts as anonymous, because the key proves nothing. */
  readonly tier: Tier;
  /**
   * How the account encrypts in this environment. This is decided when the head has arrived, so that a grace period does not end in the
   * middle of a request.
   */
  readonly encryption: ActiveEncryption | undefined;
  /** Whether the request's body was an envelope and has been opened. */
  readonly opened: boolean;
  /** How the response is sealed; undefined if the exchange is not enveloped. */
  readonly sealing: Sealing | undefined;
  /** The routes for the request's path and method; undefined before routing. */
  readonly match: RouteMatch | undefined;
  /** Refusals that are only reported. The request is forwarded as if their rules did not exist. */
  readonly reported: readonly ReportableCode[];
  /** Undefined if traces are not configured. */
  readonly trace: RequestTrace | undefined;
}

/** A request that has passed every check so far. */
export interface Admitted extends Facts {
  readonly head: RequestHead;
  readonly environment: ServedEnvironment;
  readonly match: RouteMatch;
  readonly refusal: undefined;
}

/** A request that a check has refused, with the facts known by then. */
export interface Refused extends Facts {
  /** Undefined if the head itself is invalid. */
  readonly head: RequestHead | undefined;
  /** Undefined if the head is invalid or no environment has the host. */
  readonly environment: ServedEnvironment | undefined;
  readonly refusal: Refusal;
}

export type Exchange = Admitted | Refused;

/** The initial facts about a request. */
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

/** The exchange of a request that is refused before its environment is known. */
export function refused(refusal: Refusal, id: string, head?: RequestHead): Refused {
  return { ...nothingKnown, id, head, environment: undefined, match: undefined, refusal };
}

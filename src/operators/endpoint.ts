import type { Readable } from 'node:stream';
import { z } from 'zod';
import type { AccountWithoutKeys, DailyUses } from '../accounts/accounts.ts';
import { identifier } from '../accounts/value-types.ts';
import { environmentNames } from '../accounts/api-key.ts';
import type { ChangeRequest } from '../accounts/operations.ts';
import type { Hints } from '../accounts/store.ts';
import type { RemoteOperations } from '../accounts/operations-rpc.ts';
import type { OperatorRole, OperatorsToken } from '../config/config.ts';
import type { RecentTraffic } from '../telemetry/recent-traffic.ts';
import { oneOf } from '../input/value-types.ts';
import { textValue } from '../input/text-value.ts';
import type { ByteBudget } from './byte-budget.ts';
import type { SidecarState } from './overview.ts';
import type { ViewName } from './views.ts';
import type { EpochMs } from '../times.ts';

/** The dependencies of endpoints. */
export interface Parts {
  readonly operations: RemoteOperations;
  /** Waits until this sidecar uses the stored version of the account with this id; resolves to false if that takes too long. */
  readonly isServed: (account: string, hints: Hints) => Promise<boolean>;
  /** The account as this sidecar serves it; undefined if there is none. */
  readonly find: (account: string) => Promise<AccountWithoutKeys | undefined>;
  /** The budget for bodies that are being sealed. */
  readonly sealing: ByteBudget;
  readonly recent: RecentTraffic;
  /** As in `AccountsDatabase`. Resolves to undefined if the accounts are in a file or the uses cannot be read. */
  readonly dailyUses: (owner: string, keys: readonly string[], now: EpochMs) => Promise<DailyUses | undefined>;
  /** The current state of this sidecar. */
  readonly sidecar: () => SidecarState;
}

/** The context of a request, without its input. All members except `check` are plain data, so that they can be sent to another thread. */
export interface Caller extends ChangeRequest {
  /** The token of the request. */
  readonly token: OperatorsToken;
}

/** The parts of a request that only some endpoints read. */
export interface RawRequest {
  readonly now: EpochMs;
  /** The body of a request to an endpoint with `rawBody`; undefined if there is none. */
  readonly body: Readable | undefined;
  /** The signal from `whenLeft`. */
  readonly left: AbortSignal;
}

export interface Endpoint {
  readonly method: 'GET' | 'POST';
  /** Relative to the API's root, with `{parameters}` as in OpenAPI. */
  readonly path: string;
  /** The name of the endpoint in the log, in metrics and in the API's description. */
  readonly operation: string;
  readonly summary: string;
  /**
   * The lowest role that may use the endpoint. An endpoint for `operator` or `admin` changes one account, which the input names as
   * `account` or `id`, and its response has the member `in_force`.
   */
  readonly role: OperatorRole;
  /** The lowest role that may use the endpoint for `live`, if it differs from `role`. */
  readonly roleInLive?: OperatorRole;
  /**
   * Whether a token of one account may use the endpoint. Undefined: yes, if the path names that account. `own`: yes, because `run` reads
   * only the account of the token. `none`: no, although the path names an account.
   */
  readonly accountToken?: 'own' | 'none';
  /** The schema of path, query and body together. No name occurs twice. */
  readonly input: z.ZodObject;
  readonly response: { readonly status: 200 | 201; readonly view: ViewName };
  /** Whether the endpoint creates a secret, so that `Idempotency-Key` applies. */
  readonly makesSecret?: true;
  /** Whether the endpoint reads many accounts or events. Requests like these from the same owner run one at a time. */
  readonly takesTurns?: true;
  /**
   * Whether the endpoint takes something away, such as a key. If such a request waits for a locked account, later requests for other
   * accounts wait only briefly.
   */
  readonly urgent?: true;
  /** Whether the body may be of any type. If so, `run` resolves to a `SealedBody`, which becomes the response. */
  readonly rawBody?: true;
  /** @param input validated by this endpoint's schema */
  readonly run: (parts: Parts, input: never, caller: Caller, raw: RawRequest) => Promise<object>;
}

/** Ties the type of `run` to the input schema. */
export function endpoint<Input extends z.ZodObject>(
  row: Omit<Endpoint, 'input' | 'run'> & {
    readonly input: Input;
    readonly run: (parts: Parts, input: z.output<Input>, caller: Caller, raw: RawRequest) => Promise<object>;
  },
): Endpoint {
  return row;
}

export const account = textValue(identifier).describe('The id of the account.');
export const key = textValue(identifier).describe('The id of the key.');
export const environment = textValue(oneOf(environmentNames));

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
  /** Waits until this sidecar uses the account with this id as stored; false if that takes too long. */
  readonly isServed: (account: string, hints: Hints) => Promise<boolean>;
  /** The account as this sidecar serves it; undefined if there is none. */
  readonly find: (account: string) => Promise<AccountWithoutKeys | undefined>;
  /** The bytes of bodies that are being sealed. */
  readonly sealing: ByteBudget;
  readonly recent: RecentTraffic;
  /** As in `AccountsDatabase`; undefined if the accounts are in a file, or if the uses cannot be read. */
  readonly dailyUses: (owner: string, keys: readonly string[], now: EpochMs) => Promise<DailyUses | undefined>;
  /** The current state of this sidecar. */
  readonly sidecar: () => SidecarState;
}

/** The context of a request, without its input. Plain data except for `check`, so that it can be sent to a thread. */
export interface Caller extends ChangeRequest {
  /** The token it came with. */
  readonly token: OperatorsToken;
}

/** A request with a raw body. */
export interface RawRequest {
  readonly now: EpochMs;
  /** Undefined if the request has none. */
  readonly body: Readable | undefined;
  /** From `whenLeft`. */
  readonly left: AbortSignal;
}

export interface Endpoint {
  readonly method: 'GET' | 'POST';
  /** Below the API's root, with `{parameters}` as OpenAPI writes them. */
  readonly path: string;
  /** Its name in the log, in metrics and in the API's description. */
  readonly operation: string;
  readonly summary: string;
  /**
   * The lowest role that may use it. With `operator` or `admin`, it changes one account, named as `account` or `id` in the input, and its
   * response has `in_force`.
   */
  readonly role: OperatorRole;
  /** The lowest role that may use it for `live`, if different. */
  readonly roleInLive?: OperatorRole;
  /**
   * Whether a token of one account may use it. Undefined: for the account in the path. `own`: `run` reads only the account of the
   * token. `none`: not at all, although the path names an account.
   */
  readonly accountToken?: 'own' | 'none';
  /** Path, query and body in one: no name occurs twice. */
  readonly input: z.ZodObject;
  readonly response: { readonly status: 200 | 201; readonly view: ViewName };
  /** Whether it creates a secret, so that `Idempotency-Key` applies. */
  readonly makesSecret?: true;
  /** Whether it reads many accounts or events: such requests of one token are carried out one at a time. */
  readonly takesTurns?: true;
  /** Whether it takes something away: if its account is locked, it does not hold up such requests for other accounts. */
  readonly urgent?: true;
  /** Whether its body may be of any type. `run` then resolves to a `SealedBody`, which is the response. */
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

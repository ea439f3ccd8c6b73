import type { Account, Encryption } from '../accounts/account.ts';
import { environmentNames, type EnvironmentName } from '../accounts/api-key.ts';
import type { MasterKey } from '../accounts/master-key.ts';
import type { PackedCodec } from '../envelope/codec.ts';
import type { Env } from '../yaml/values.ts';
import type { StoreSettings } from './config.ts';
import type { LoadedFiles } from './loaded.ts';
import type { RefusedStore } from './try-store.ts';

/** The messages from the loading thread, in this order: batches of accounts, then the rest of the result without the accounts. */
export type WorkerMessage = readonly Account<PackedCodec>[] | LoadedFiles;

/** A request to the loading thread: a new task, or `next` for the next message about the current task. */
export type WorkerRequest = WorkerTask | 'next';

/** A task for the loading thread. */
export interface WorkerTask {
  readonly file: string;
  readonly env: Env;
  /** As in `loadFiles`. */
  readonly running?: StoreSettings;
  readonly unwrapped?: readonly MasterKey[];
  /** A refused store that is not tried again, because while the thread waited for it, a key revoked in the files would keep working. */
  readonly refused?: RefusedStore | undefined;
}

/** Converts the codecs of an account. Packed codecs can be sent to another thread. */
export function withCodecs<A, B>(account: Account<A>, convert: (codec: A) => B): Account<B> {
  const encryption: Partial<Record<EnvironmentName, Encryption<B>>> = {};
  for (const environment of environmentNames) {
    const one = account.encryption[environment];
    if (one?.type === 'ending') encryption[environment] = { ...one, previous: convert(one.previous) };
    if (one?.type !== 'on') continue;
    const { current, grace } = one;
    const previous = grace?.previous === undefined ? undefined : convert(grace.previous);
    encryption[environment] = { ...one, current: convert(current), grace: grace && { ...grace, previous } };
  }
  return { ...account, encryption };
}

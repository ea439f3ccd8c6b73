import { FairQueue, TurnAbout } from '../../fair-queue.ts';
import type { EnableOptions } from '../changes.ts';
import { findRequest, type OperationCall } from '../operations-rpc.ts';
import type { Hints } from '../store.ts';

/** Whether an operation is urgent: it may stop the use of a leaked key, or it tells whether a change that does so has taken effect. */
export function isUrgent(call: OperationCall): boolean {
  const {
    name,
    arguments: [, first, option],
  } = call;
  if (name === 'setActive') return first === false;
  if (name === 'stored') return (first as Hints | undefined)?.urgent === true;
  // Ending a grace period is urgent, and so is replacing credentials that may have leaked.
  if (name === 'changeGrace') return option === undefined;
  if (name === 'enableEncryption') return (option as EnableOptions).replace && findRequest(call)?.ofAccount !== true;
  return name === 'revokeKey' || name === 'disableEncryption';
}

/** The account whose own token asks for a change; undefined for all other operations. */
export function findOwnAccount(call: OperationCall): string | undefined {
  const [account] = call.arguments;
  return findRequest(call)?.ofAccount === true && typeof account === 'string' ? account : undefined;
}

/** The owner of a read: the account that is read, or the only account that the token may read. All other reads share one owner. */
function ownerOf({ name, arguments: [first, second] }: OperationCall): string {
  if (name === 'findKey') return typeof second === 'string' ? second : '';
  if (typeof first === 'string') return first;
  const { only, account } = (second ?? {}) as { readonly only?: string; readonly account?: string };
  return only ?? account ?? '';
}

/** Waiting changes, by owner (an operator or an account). Owners take turns, because each change takes a second if the file is large. */
class Changes {
  /** Revocations of keys and deactivations of accounts, which may stop the use of a leaked key. */
  readonly #first: FairQueue<string>;
  readonly #others: FairQueue<string>;
  /** The two queues take turns, because someone who revokes keys again and again would otherwise keep all other changes waiting. */
  readonly #turns: TurnAbout;

  /** @param isReady as in `FairQueue` */
  constructor(isReady?: (owner: string) => boolean) {
    this.#first = new FairQueue(isReady);
    this.#others = new FairQueue(isReady);
    this.#turns = new TurnAbout(this.#first, this.#others);
  }

  add({ name, arguments: [, active] }: OperationCall, owner: string, start: () => void): void {
    const goesFirst = name === 'revokeKey' || (name === 'setActive' && active === false);
    (goesFirst ? this.#first : this.#others).add(owner, start);
  }

  shift(): (() => void) | undefined {
    return this.#turns.shift();
  }
}

/**
 * Operations that wait for a thread. An account may have any number of tokens, so changes that such tokens ask for wait in queues of their
 * own.
 */
export class Waiting {
  readonly #reads = new FairQueue<string>();
  readonly #changes = new Changes();
  /** Accounts that have just made a change with their own token. Their next changes have to wait for a while. */
  readonly resting = new Set<string>();
  readonly #changesOfAccounts = new Changes((account) => !this.resting.has(account));
  readonly #turns = new TurnAbout(this.#reads, this.#changes, this.#changesOfAccounts);
  readonly #readsFirst: boolean;

  /** @param readsFirst whether reads go before all changes, which suits a thread with few reads */
  constructor(readsFirst: boolean) {
    this.#readsFirst = readsFirst;
  }

  add(call: OperationCall, start: () => void): void {
    const request = findRequest(call);
    const account = findOwnAccount(call);
    if (request === undefined) this.#reads.add(ownerOf(call), start);
    else if (account === undefined) this.#changes.add(call, request.actor, start);
    else this.#changesOfAccounts.add(call, account, start);
  }

  shift(): (() => void) | undefined {
    return (this.#readsFirst ? this.#reads.shift() : undefined) ?? this.#turns.shift();
  }
}

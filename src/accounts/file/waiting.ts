import { FairQueue, TurnAbout } from '../../fair-queue.ts';
import type { EnableOptions } from '../changes.ts';
import type { ChangeRequest } from '../operations.ts';
import { isRequest, type OperationCall } from '../operations-rpc.ts';
import type { Hints } from '../store.ts';

/** Whether an operation does not wait for others: it ends what a leaked key can do, or tells whether that is in force. */
export function isUrgent(call: OperationCall): boolean {
  const {
    name,
    arguments: [, first, option],
  } = call;
  if (name === 'setActive') return first === false;
  if (name === 'stored') return (first as Hints | undefined)?.urgent === true;
  // The end of a grace, and new credentials for leaked ones.
  if (name === 'changeGrace') return option === undefined;
  if (name === 'enableEncryption') return (option as EnableOptions).replace && findRequest(call)?.ofAccount !== true;
  return name === 'revokeKey' || name === 'disableEncryption';
}

/** Who asks for a change; undefined for what only reads. */
export function findRequest(call: OperationCall): ChangeRequest | undefined {
  return call.arguments.find(isRequest);
}

/** The account whose own token asks for a change. */
export function findOwnAccount(call: OperationCall): string | undefined {
  const [account] = call.arguments;
  return findRequest(call)?.ofAccount === true && typeof account === 'string' ? account : undefined;
}

/** The account that a read is about, or the only one that its token may read. Of others, all lists take turns as one. */
function ownerOf({ name, arguments: [first, second] }: OperationCall): string {
  if (name === 'findKey') return typeof second === 'string' ? second : '';
  if (typeof first === 'string') return first;
  const { only, account } = (second ?? {}) as { readonly only?: string; readonly account?: string };
  return only ?? account ?? '';
}

/** Changes of some operators, or accounts, who take turns: with many accounts each change takes a second. */
class Changes {
  /** What may take away what a leaked key can do. */
  readonly #first: FairQueue<string>;
  readonly #others: FairQueue<string>;
  /** Or those who revoke again and again would keep all others waiting. */
  readonly #turns: TurnAbout;

  /** @param isReady as of `FairQueue` */
  constructor(isReady?: (owner: string) => boolean) {
    this.#first = new FairQueue(isReady);
    this.#others = new FairQueue(isReady);
    this.#turns = new TurnAbout(this.#first, this.#others);
  }

  add({ name }: OperationCall, owner: string, start: () => void): void {
    (name === 'revokeKey' || name === 'setActive' ? this.#first : this.#others).add(owner, start);
  }

  shift(): (() => void) | undefined {
    return this.#turns.shift();
  }
}

/** Operations that wait for a thread. There may be any number of tokens of an account: they wait among themselves. */
export class Waiting {
  readonly #reads = new FairQueue<string>();
  readonly #changes = new Changes();
  /** Accounts that rest after a change. */
  readonly resting = new Set<string>();
  readonly #changesOfAccounts = new Changes((account) => !this.resting.has(account));
  readonly #turns = new TurnAbout(this.#reads, this.#changes, this.#changesOfAccounts);
  readonly #readsFirst: boolean;

  /** @param readsFirst whether no read waits for changes: they are few */
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

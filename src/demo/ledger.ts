/** A response from the core: its status and its JSON, which is undefined if there is no body. */
export interface Response {
  readonly status: number;
  readonly body: unknown;
}

/** A requested payment. `amount` is in minor units. */
interface Payment {
  readonly amount: number;
  readonly currency: string;
  readonly reference?: string | undefined;
}

/** A transaction, as it appears in responses. */
interface Transaction {
  readonly id: string;
  readonly object: 'transaction';
  readonly status: 'pending' | 'succeeded';
  readonly amount: number;
  readonly amount_refunded: number;
  readonly currency: string;
  readonly reference: string | null;
}

/** A webhook, as it appears in responses. */
interface Webhook {
  readonly id: string;
  readonly object: 'webhook';
  readonly url: string;
  readonly events: readonly string[];
}

/** Items by their ids, each with the account it belongs to. */
type Items<T> = Map<string, { readonly account: string; readonly item: T }>;

/**
 * Maximum number of items of one kind. When it is exceeded, the oldest item is dropped, so that a long demo or a load test does not fill
 * the memory.
 */
const maxStored = 10_000;

/** Maximum number of items in a list. */
const maxListed = 100;

/** The payments and webhooks of the stand-in core. An account sees only its own items. A request for another account's item gets a 404. */
export class Ledger {
  readonly #transactions: Items<Transaction> = new Map();
  readonly #webhooks: Items<Webhook> = new Map();
  #count = 0;

  initialize(account: string, payment: Payment): Response {
    return this.#add(account, payment, 'pending');
  }

  charge(account: string, payment: Payment): Response {
    return this.#add(account, payment, 'succeeded');
  }

  refund(account: string, refund: { readonly transaction: string; readonly amount?: number | undefined }): Response {
    const transaction = this.#find(account, refund.transaction);
    if (transaction === undefined) return notFound(refund.transaction);
    if (transaction.status !== 'succeeded') return failure(409, 'not_charged', 'The transaction has not been charged.');
    const { id, currency, amount_refunded: refunded } = transaction;
    const left = transaction.amount - refunded;
    const amount = refund.amount ?? left;
    if (amount > left || left === 0) return failure(409, 'refund_exceeds_charge', `${left} can still be refunded.`);
    this.#transactions.set(id, { account, item: { ...transaction, amount_refunded: refunded + amount } });
    const body = { id: this.#id('rfd'), object: 'refund', status: 'succeeded', transaction: id, amount, currency };
    return { status: 201, body };
  }

  showTransaction(account: string, id: string): Response {
    const transaction = this.#find(account, id);
    return transaction === undefined ? notFound(id) : { status: 200, body: transaction };
  }

  listTransactions(account: string): Response {
    return list(this.#transactions, account);
  }

  addWebhook(account: string, { url, events }: Pick<Webhook, 'url' | 'events'>): Response {
    return keep(this.#webhooks, account, { id: this.#id('whk'), object: 'webhook', url, events });
  }

  listWebhooks(account: string): Response {
    return list(this.#webhooks, account);
  }

  #add(account: string, payment: Payment, status: Transaction['status']): Response {
    const { amount, currency, reference = null } = payment;
    const id = this.#id('txn');
    const item = { id, object: 'transaction', status, amount, amount_refunded: 0, currency, reference } as const;
    return keep(this.#transactions, account, item);
  }

  #find(account: string, id: string): Transaction | undefined {
    const found = this.#transactions.get(id);
    return found?.account === account ? found.item : undefined;
  }

  #id(prefix: string): string {
    this.#count += 1;
    return `${prefix}_${this.#count}`;
  }
}

function keep<T extends { readonly id: string }>(items: Items<T>, account: string, item: T): Response {
  items.set(item.id, { account, item });
  const [oldest] = items.keys();
  if (items.size > maxStored && oldest !== undefined) items.delete(oldest);
  return { status: 201, body: item };
}

/** The items of an account, the newest first. */
function list(items: Items<unknown>, account: string): Response {
  const own = [...items.values()].filter((each) => each.account === account).map(({ item }) => item);
  const data = own.slice(-maxListed).toReversed();
  return { status: 200, body: { object: 'list', data, has_more: own.length > maxListed } };
}

function notFound(id: string): Response {
  return failure(404, 'transaction_not_found', `There is no transaction ${id}.`);
}

/** An error response, in the form that all errors from the core have. */
export function failure(status: number, code: string, message: string): Response {
  return { status, body: { error: { code, message } } };
}

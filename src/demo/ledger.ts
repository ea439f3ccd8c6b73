/** A response of the core: its status and its JSON, undefined for none. */
export interface Response {
  readonly status: number;
  readonly body: unknown;
}

/** A requested payment. `amount` in minor units. */
interface Payment {
  readonly amount: number;
  readonly currency: string;
  readonly reference?: string | undefined;
}

interface Transaction {
  readonly id: string;
  readonly account: string;
  readonly status: 'pending' | 'succeeded';
  readonly amount: number;
  readonly amountRefunded: number;
  readonly currency: string;
  readonly reference: string | null;
}

interface Webhook {
  readonly id: string;
  readonly account: string;
  readonly url: string;
  readonly events: readonly string[];
}

/** The oldest items are dropped beyond this number, so that a long demo (or a load test) does not fill the memory. */
const maxKept = 10_000;

/** The most items in a list. */
const maxListed = 100;

/** The payments of the stand-in core. An account sees only its own items. Items of others get a 404. */
export class Ledger {
  readonly #transactions = new Map<string, Transaction>();
  readonly #webhooks = new Map<string, Webhook>();
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
    const left = transaction.amount - transaction.amountRefunded;
    const amount = refund.amount ?? left;
    if (amount > left || left === 0) return failure(409, 'refund_exceeds_charge', `${left} can still be refunded.`);
    this.#transactions.set(transaction.id, { ...transaction, amountRefunded: transaction.amountRefunded + amount });
    const { id: of, currency } = transaction;
    return created({ id: this.#id('rfd'), object: 'refund', status: 'succeeded', transaction: of, amount, currency });
  }

  showTransaction(account: string, id: string): Response {
    const transaction = this.#find(account, id);
    return transaction === undefined ? notFound(id) : { status: 200, body: transactionBody(transaction) };
  }

  listTransactions(account: string): Response {
    return list([...this.#transactions.values()].filter((each) => each.account === account).map(transactionBody));
  }

  addWebhook(account: string, { url, events }: Pick<Webhook, 'url' | 'events'>): Response {
    const webhook = { id: this.#id('whk'), account, url, events };
    keep(this.#webhooks, webhook);
    return created(webhookBody(webhook));
  }

  listWebhooks(account: string): Response {
    return list([...this.#webhooks.values()].filter((each) => each.account === account).map(webhookBody));
  }

  #add(account: string, payment: Payment, status: Transaction['status']): Response {
    const { amount, currency, reference = null } = payment;
    const transaction = { id: this.#id('txn'), account, status, amount, amountRefunded: 0, currency, reference };
    keep(this.#transactions, transaction);
    return created(transactionBody(transaction));
  }

  #find(account: string, id: string): Transaction | undefined {
    const transaction = this.#transactions.get(id);
    return transaction?.account === account ? transaction : undefined;
  }

  #id(prefix: string): string {
    this.#count += 1;
    return `${prefix}_${this.#count}`;
  }
}

function keep<T extends { readonly id: string }>(items: Map<string, T>, item: T): void {
  items.set(item.id, item);
  const [oldest] = items.keys();
  if (items.size > maxKept && oldest !== undefined) items.delete(oldest);
}

function transactionBody({ id, status, amount, amountRefunded, currency, reference }: Transaction): object {
  return { id, object: 'transaction', status, amount, amount_refunded: amountRefunded, currency, reference };
}

function webhookBody({ id, url, events }: Webhook): object {
  return { id, object: 'webhook', url, events };
}

function created(body: object): Response {
  return { status: 201, body };
}

/** The newest first. */
function list(items: readonly object[]): Response {
  const data = items.slice(-maxListed).toReversed();
  return { status: 200, body: { object: 'list', data, has_more: items.length > maxListed } };
}

function notFound(id: string): Response {
  return failure(404, 'transaction_not_found', `There is no transaction ${id}.`);
}

/** An error response, in the form that all of the core's have. */
export function failure(status: number, code: string, message: string): Response {
  return { status, body: { error: { code, message } } };
}

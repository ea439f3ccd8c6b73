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
  readonly currency: string;
  readonly reference: string | null;
}

/** Maximum number of transactions. When it is exceeded, the oldest is dropped, so that a long demo or a load test does not fill the memory. */
const maxStored = 10_000;

/** Maximum number of transactions in a list. */
const maxListed = 100;

/** The transactions of the stand-in core. An account sees only its own. A request for another account's transaction gets a 404. */
export class Ledger {
  readonly #transactions = new Map<string, { readonly account: string; readonly transaction: Transaction }>();
  #count = 0;

  add(account: string, payment: Payment, status: Transaction['status']): Response {
    const { amount, currency, reference = null } = payment;
    this.#count += 1;
    const id = `txn_${this.#count}`;
    const transaction = { id, object: 'transaction', status, amount, currency, reference } as const;
    this.#transactions.set(id, { account, transaction });
    const [oldest] = this.#transactions.keys();
    if (this.#transactions.size > maxStored && oldest !== undefined) this.#transactions.delete(oldest);
    return { status: 201, body: transaction };
  }

  show(account: string, id: string): Response {
    const found = this.#transactions.get(id);
    if (found?.account === account) return { status: 200, body: found.transaction };
    return failure(404, 'transaction_not_found', `There is no transaction ${id}.`);
  }

  /** The transactions of an account, the newest first. */
  list(account: string): Response {
    const own = [...this.#transactions.values()].filter((each) => each.account === account);
    const data = own.slice(-maxListed).map(({ transaction }) => transaction);
    return { status: 200, body: { object: 'list', data: data.toReversed(), has_more: own.length > maxListed } };
  }
}

/** An error response, in the form that all errors from the core have. */
export function failure(status: number, code: string, message: string): Response {
  return { status, body: { error: { code, message } } };
}

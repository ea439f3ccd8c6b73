import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import { displayName, readRegularFile } from '../../yaml/files.ts';
import { WrongValue } from '../../input/value-types.ts';
import { AccountsError } from '../accounts-error.ts';
import { refuseReuse } from '../changes.ts';
import { readVersion, type Companion } from './replace.ts';
import type { IdempotencyKey } from '../store.ts';

/**
 * Maximum number of receipts kept. If there are more, the account with the most receipts loses its oldest one, so that the tokens of one
 * account cannot displace the receipts of other accounts.
 */
const maxReceipts = 1_000;

/** Receipts by idempotency key, oldest first. */
const fileForm = z.array(z.tuple([z.string(), z.object({ request: z.string(), receipt: z.string() })]));
type ReceiptsByKey = Map<string, { request: string; receipt: string }>;

/**
 * The receipts of changes that must not be made twice. They are stored in a file next to the accounts file, so that every program that
 * changes the accounts can find them, even after a restart.
 */
export class Receipts {
  readonly #path: string;
  readonly #version: string;

  /** @param accounts the path of the accounts file, not of a symbolic link to it */
  constructor(accounts: string) {
    this.#path = join(dirname(accounts), `.${basename(accounts)}.receipts`);
    // The version is read before the receipts, so that a change made between the two is detected when the receipts are replaced.
    this.#version = readVersion(this.#path);
  }

  /**
   * The receipt of an earlier request with this key; undefined if there is none.
   *
   * @throws AccountsError `idempotency_key_reused`, `store_invalid`
   */
  find(idempotencyKey: IdempotencyKey): string | undefined {
    const found = this.#read().get(idempotencyKey.key);
    if (found === undefined) return undefined;
    refuseReuse(idempotencyKey, found.request);
    return found.receipt;
  }

  /** The new content of the file, with one more receipt. */
  with({ key, request }: IdempotencyKey, receipt: string): Companion {
    const receipts = this.#read().set(key, { request, receipt });
    while (receipts.size > maxReceipts) receipts.delete(oldestOfLargest(receipts));
    return { path: this.#path, version: this.#version, text: `${JSON.stringify([...receipts])}\n` };
  }

  #read(): ReceiptsByKey {
    try {
      return new Map(fileForm.parse(JSON.parse(readRegularFile(this.#path).toString())));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Map();
      const isOdd = error instanceof SyntaxError || error instanceof z.ZodError || error instanceof WrongValue;
      if (!isOdd) throw error;
      throw new AccountsError(
        'store_invalid',
        `${displayName(this.#path)} cannot be read as receipts: remove it`,
        error,
      );
    }
  }
}

/** The oldest idempotency key of the account with the most receipts. Tokens that may change all accounts count together as one account. */
function oldestOfLargest(receipts: ReceiptsByKey): string {
  const keysOf = Map.groupBy(receipts.keys(), parseAccount);
  const [oldest = ''] = [...keysOf.values()].reduce((most, keys) => (keys.length > most.length ? keys : most), []);
  return oldest;
}

/** The account in an idempotency key, which is the part before the space; empty if the key is from a token for all accounts. */
function parseAccount(key: string): string {
  return key.slice(0, Math.max(0, key.indexOf(' ')));
}

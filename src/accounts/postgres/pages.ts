import type { Selection } from '../store.ts';
import { buildConditions } from './conditions.ts';
import { selectAccounts, type AccountRow } from './rows.ts';
import type { Query } from './transaction.ts';

/** Maximum number of accounts in one query, and the number of keys after which a page takes no further account. */
const accountsAtOnce = 500;
const keysAtOnce = 2_000;

/** Yields the selected accounts after the id `after`, sorted by id, in pages. If there is no selection, each account has all its keys. */
export async function* pages(run: Query, after = '', selection?: Selection): AsyncIterable<AccountRow[]> {
  const { conditions, values } = buildConditions(selection, 4);
  const text = `
    WITH candidates AS (
      SELECT a.account_id, (SELECT count(*) FROM envelope_sidecar.api_keys k WHERE k.account_id = a.account_id) AS keys
      FROM envelope_sidecar.accounts a
      WHERE a.account_id > $1${conditions} ORDER BY a.account_id LIMIT $2
    ), page AS (
      SELECT account_id, sum(keys) OVER (ORDER BY account_id) - keys AS keys_before, count(*) OVER () AS candidates
      FROM candidates
    )
    SELECT account.*, page.candidates::integer
    FROM page JOIN (${selectAccounts(selection === undefined ? {} : undefined)}) AS account USING (account_id)
    WHERE page.keys_before < $3 ORDER BY account_id`;
  for (let last: string | undefined = after; last !== undefined;) {
    const rows: (AccountRow & { readonly candidates: number })[] = await run(text, [
      last,
      accountsAtOnce,
      keysAtOnce,
      ...values,
    ]);
    yield rows;
    const isLast = rows.length < accountsAtOnce && rows.length === (rows[0]?.candidates ?? 0);
    last = isLast ? undefined : rows.at(-1)?.account_id;
  }
}

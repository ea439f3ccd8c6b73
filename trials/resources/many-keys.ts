import { setTimeout } from 'node:timers/promises';
import { count } from '../../bench/table.ts';
import type { TestPostgres } from '../../test/support/postgres.ts';
import { KeepAliveClient } from '../load/client.ts';
import type { Defer } from '../load/stage.ts';
import { heldBy } from './held.ts';
import { mebibyte, setups, startUnder, targetOf, type ResourceOptions } from './setup.ts';
import { askApi, emptyStore } from './store-setup.ts';

/** How many operators list all keys at the same time, page by page, and how many show the account. */
const listing = 6;
const showing = 2;

/** Other requests whose responses include the keys of that account. */
const shows = ['GET /accounts/hoarder', 'GET /accounts?search=hoarder', 'GET /due?limit=1000', 'GET /accounts'];

/** Makes several operators list the keys of one account at the same time. The account has far more keys than the API allows. */
export async function runManyKeys(
  postgres: TestPostgres | undefined,
  defer: Defer,
  { program, more = 0, keys = 100_000 }: ResourceOptions,
): Promise<{ readonly lines: string[][]; readonly problems: string[] }> {
  // PostgreSQL is required, because a file with so many keys would not fit into the memory of this trial.
  if (postgres === undefined) return { lines: [], problems: [] };
  const { deployed } = setups();
  const { folder, url = '' } = await emptyStore(postgres, defer);
  await postgres.psql(url, withKeys(keys));
  const sidecar = await startUnder(deployed, folder.file('sidecar.yaml'), defer, program);
  const { operators } = targetOf(sidecar, deployed.limits);
  const problems: string[] = [];
  let held = 0;
  const watch = setInterval(() => (held = Math.max(held, heldBy(sidecar.pid))), 20);
  let ended = false;
  const shown = Array.from({ length: showing }, () => show(operators, () => ended, problems));
  const listed = await Promise.all(Array.from({ length: listing }, () => listAll(operators, problems)));
  ended = true;
  await Promise.all(shown);
  clearInterval(watch);
  if (!sidecar.isRunning()) problems.push(`the process has ended: ${sidecar.errors().slice(-2_000)}`);
  for (const each of listed) if (each !== keys) problems.push(`${each} keys were listed`);
  if (held > deployed.mebibytes * mebibyte + more) problems.push(`${Math.ceil(held / mebibyte)} MiB were held`);
  sidecar.signal('SIGTERM');
  await sidecar.ended;
  const line = [count(keys), count(listing), `${Math.ceil((held - more) / mebibyte)} MiB`, `${deployed.mebibytes} MiB`];
  return { lines: [line], problems: problems.map((problem) => `many keys: ${problem}`) };
}

/** Creates the keys, half of which are valid. */
function withKeys(keys: number): string {
  return `
    INSERT INTO envelope_sidecar.accounts VALUES ('hoarder', 'Hoarder', true);
    INSERT INTO envelope_sidecar.api_keys (key_id, account_id, prefix, hash, created_at, revoked_at)
      SELECT 'key-' || i, 'hoarder', 'sk_test_', sha256(i::text::bytea), '2025-01-01',
        CASE WHEN i % 2 = 0 THEN '2025-06-01'::timestamptz END
      FROM generate_series(1, ${keys}) AS i;`;
}

/** @returns the total number of keys on all pages */
async function listAll(port: number, problems: string[]): Promise<number> {
  const client = new KeepAliveClient(port);
  const ids = new Set<string>();
  for (let next: string | null = ''; next !== null;) {
    const after: string = next === '' ? '' : `&after=${next}`;
    const outcome = await askApi(client, `GET /accounts/hoarder/keys?limit=1000${after}`);
    if (outcome.kind !== 'answered' || outcome.status !== 200) {
      problems.push(JSON.stringify(outcome));
      break;
    }
    const page = JSON.parse(outcome.body) as { keys: readonly { id: string }[]; next: string | null };
    for (const { id } of page.keys) ids.add(id);
    ({ next } = page);
  }
  client.close();
  return ids.size;
}

async function show(port: number, hasEnded: () => boolean, problems: string[]): Promise<void> {
  const client = new KeepAliveClient(port);
  while (!hasEnded()) {
    for (const request of shows) {
      const outcome = await askApi(client, request);
      if (outcome.kind !== 'answered' || outcome.status !== 200)
        problems.push(`${request}: ${JSON.stringify(outcome)}`);
    }
    await setTimeout(10);
  }
  client.close();
}

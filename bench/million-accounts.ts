/*
 * What accounts in PostgreSQL cost, up to a million: writing them as an import does, and looking keys up.
 *
 *     node bench/million-accounts.ts postgres://… [accounts]
 *
 * Uses a database of its own: it must be empty, and is left full.
 */
import { createSecretKey, randomBytes } from 'node:crypto';
import { hashOf, prefixOf } from '../src/accounts/api-key.ts';
import { PostgresDirectory } from '../src/accounts/postgres/directory.ts';
import { migrate } from '../src/accounts/postgres/migrate.ts';
import { changePool } from '../src/accounts/postgres/clients.ts';
import { PostgresStore } from '../src/accounts/postgres/store.ts';
import { TallyKeeper } from '../src/accounts/postgres/tally-keeper.ts';
import type { StoredAccount } from '../src/accounts/store.ts';
import { Vault } from '../src/accounts/vault.ts';
import { generateCredentials } from '../src/envelope/credentials.ts';

const [url, count = '1000000'] = process.argv.slice(2);
if (url === undefined) throw new Error('usage: node bench/million-accounts.ts postgres://… [accounts]');

const batch = 1_000;
const vault = new Vault([createSecretKey(randomBytes(32))]);
const store = new PostgresStore(url);
const pool = await changePool(url, 1);

console.log('migrations:', (await migrate(url)).join(' ') || 'none');
const total = Number(count);
let written = 0;
for (const milestone of [10_000, 100_000, 1_000_000, total].filter((each) => each <= total)) {
  if (milestone <= written) continue;
  await write(milestone);
  await lookUp();
}
await countAll();
await store.close();
await pool.end();

/** Writes accounts until there are so many. */
async function write(until: number): Promise<void> {
  const [from, begin] = [written, performance.now()];
  while (written < until) {
    const accounts = Array.from({ length: Math.min(batch, until - written) }, (_, i) => accountNo(written + i));
    await store.change(
      accounts.map(({ id }) => id),
      () => ({
        accounts,
        events: accounts.map(({ id: account }) => {
          return { at: Date.now(), actor: 'user:bench', action: 'account_imported', account, details: {} } as const;
        }),
        result: undefined,
      }),
    );
    written += accounts.length;
  }
  const seconds = (performance.now() - begin) / 1_000;
  const rate = Math.round((written - from) / seconds);
  console.log(`${written} accounts: written in ${seconds.toFixed(1)} s, ${rate}/s, ${megabytes()} MB resident`);
}

/** Looks keys up that are not in the cache, one after the other and many at once; and one that is. */
async function lookUp(): Promise<void> {
  const directory = new PostgresDirectory({
    url: url ?? '',
    vault,
    cache: 20_000,
    staleFor: 60_000,
    uses: { key: () => {}, previous: () => {} },
    stopwatch: () => performance.now(),
    monitor: {
      lookup: () => {},
      query: () => () => {},
      connected: () => {},
      disconnected: console.error,
      failed: console.error,
    },
  });
  await directory.open();
  const hashes = Array.from({ length: 6_000 }, () => hashOf(keyNo(Math.floor(Math.random() * written))));
  for (const hash of hashes.slice(0, 500)) await directory.find(hash);
  const times: number[] = [];
  for (const hash of hashes.slice(500, 1_000)) {
    // Not within the pause that follows a query.
    await new Promise((resolve) => void setTimeout(resolve, 6));
    const begin = performance.now();
    await directory.find(hash);
    times.push(performance.now() - begin);
  }
  times.sort((a, b) => a - b);
  const begin = performance.now();
  await Promise.all(hashes.slice(1_000).map(async (hash) => directory.find(hash)));
  const together = performance.now() - begin;
  const cached = performance.now();
  for (let i = 0; i < 1_000_000; i += 1) void directory.find(hashes[i % 1_000] ?? '');
  const each = performance.now() - cached;
  console.log(
    `  look-up: ${at(times, 0.5)} ms median, ${at(times, 0.99)} ms p99; ` +
      `5000 at once ${together.toFixed(0)} ms; cached ${each.toFixed(0)} ns; ${directory.state.known} held, ${megabytes()} MB resident`,
  );
  await directory.close();
}

async function countAll(): Promise<void> {
  const keeper = new TallyKeeper(
    () => Promise.resolve(pool),
    Date.now,
    () => performance.now(),
  );
  const begin = performance.now();
  await keeper.refresh();
  const { rows } = await pool.query<{ size: string }>(
    'SELECT pg_size_pretty(pg_database_size(current_database())) AS size',
  );
  console.log(`counting: ${(performance.now() - begin).toFixed(0)} ms`, keeper.latest()?.accounts, rows[0]?.size);
}

function at(sorted: readonly number[], share: number): string {
  return (sorted[Math.floor(sorted.length * share)] ?? Number.NaN).toFixed(2);
}

function megabytes(): number {
  return Math.round(process.memoryUsage.rss() / 1_048_576);
}

function keyNo(i: number): string {
  return `sk_test_${String(i).padStart(32, '0')}`;
}

/** An account with a secret and a public key, whose encryption is enabled in test. */
function accountNo(i: number): StoredAccount {
  const id = `merchant-${i}`;
  const { key, iv } = generateCredentials();
  const place = { account: id, environment: 'test' } as const;
  return {
    id,
    name: `Merchant ${i}`,
    active: true,
    keys: [keyNo(i), `p${keyNo(i).slice(1)}`].map((secret) => ({
      id: `${secret.slice(0, 2)}-${i}`,
      prefix: prefixOf(secret),
      hash: hashOf(secret),
      createdAt: Date.now(),
      expiresAt: undefined,
      revokedAt: undefined,
      lastUsedAt: undefined,
    })),
    encryption: {
      test: {
        enabled: true,
        encoding: 'hex',
        credentials: {
          key: vault.seal(key, { ...place, member: 'key' }),
          iv: vault.seal(iv, { ...place, member: 'iv' }),
          format: 'text',
          createdAt: Date.now(),
        },
        previous: undefined,
      },
    },
  };
}

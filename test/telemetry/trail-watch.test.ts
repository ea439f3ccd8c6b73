import { Registry } from 'prom-client';
import { describe, expect, onTestFinished, test } from 'vitest';
import { FileStore } from '../../src/accounts/file/store.ts';
import { Trail } from '../../src/accounts/file/trail.ts';
import { PostgresStore } from '../../src/accounts/postgres/store.ts';
import { trailState } from '../../src/accounts/postgres/trail.ts';
import { queryOn } from '../../src/accounts/postgres/transaction.ts';
import { changePool } from '../../src/accounts/postgres/clients.ts';
import type { AppendedEvent, AuditEvent, ChangeResult, Store, TrailState } from '../../src/accounts/store.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { watchTrail } from '../../src/telemetry/trail-watch.ts';
import { readFileSync, writeFileSync } from 'node:fs';
import { eventually } from '../support/eventually.ts';
import { Folder } from '../support/folder.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';

const event: AuditEvent = { at: 1, actor: 'user:ana', action: 'accounts_exported', account: undefined, details: {} };

/** Increases with each event, so that no two events are equal. */
let time = 0;
const add = (store: Store): Promise<ChangeResult<undefined>> =>
  store.change([], () => ({ accounts: [], events: [{ ...event, at: (time += 1) }], result: undefined }));

/** Starts a watch and captures its log lines and metrics. */
function watching(look: (seen: number) => Promise<TrailState>) {
  const registry = new Registry();
  const log: Record<string, unknown>[] = [];
  const write = (line: string): void => void log.push(JSON.parse(line) as Record<string, unknown>);
  const watch = watchTrail(registry, createLogger('info', { write }), look);
  onTestFinished(() => watch.stop());
  const audit = watch.begin();
  const told = async (): Promise<string[]> =>
    (await registry.metrics()).split('\n').filter((line) => line.startsWith('envelope_sidecar_'));
  return { watch, audit, log, told };
}

const sample = (events: number, consistent: number): string[] => [
  `envelope_sidecar_audit_events{signed="false"} ${events}`,
  `envelope_sidecar_audit_consistent ${consistent}`,
];

async function noticesWhatWasLost(
  store: Store,
  look: (seen: number) => Promise<TrailState>,
  lose: () => Promise<void>,
) {
  const { watch, log, told } = watching(look);
  const appended = async (): Promise<readonly AppendedEvent[]> => {
    const changed = await add(store);
    return changed.outcome === 'changed' ? changed.appended : [];
  };
  await watch.look();
  expect(await told()).toEqual(sample(0, 1));
  for (let i = 0; i < 3; i += 1) await add(store);
  await watch.look();
  await watch.look();
  expect([await told(), log]).toEqual([sample(3, 1), []]);
  await add(store);
  await watch.look();
  expect([await told(), log]).toEqual([sample(4, 1), []]);
  await lose();
  await watch.look();
  expect(await told()).toEqual(sample(2, 0));
  expect(log).toMatchObject([{ level: 'error', position: 4, last: 2 }]);
  await add(store);
  await watch.look();
  // The trail stays inconsistent until a restart.
  expect([await told(), log.length]).toEqual([sample(3, 0), 1]);

  // The sidecar's own events follow the last one that it has seen. Then some of them are lost, and others take their place.
  const restarted = watching(look);
  await restarted.watch.look();
  for (let i = 0; i < 2; i += 1) (await appended()).forEach(restarted.audit);
  expect(await restarted.told()).toEqual(sample(5, 1));
  await lose();
  for (let i = 0; i < 5; i += 1) (await appended()).forEach(restarted.audit);
  await restarted.watch.look();
  expect(await restarted.told()).toEqual(sample(7, 0));
  expect(restarted.log.filter(({ level }) => level === 'error')).toMatchObject([{ position: 5, last: 7 }]);

  // The sidecar's own events follow one that it has not seen.
  const behind = watching(look);
  await behind.watch.look();
  await add(store);
  for (let i = 0; i < 2; i += 1) (await appended()).forEach(behind.audit);
  await behind.watch.look();
  expect(await behind.told()).toEqual(sample(10, 1));
  await add(store);
  for (let i = 0; i < 2; i += 1) (await appended()).forEach(behind.audit);
  await lose();
  (await appended()).forEach(behind.audit);
  await behind.watch.look();
  expect(behind.log.filter(({ level }) => level === 'error')).toMatchObject([
    { position: 10 },
    { position: 13, last: 3 },
  ]);
}

/** Returns the state of a trail of a hundred events, in which the events at the positions `changed` have other hashes. */
function trailWithout(...changed: readonly number[]) {
  return async (seen: number): Promise<TrailState> => ({
    last: { position: 100, hash: 'hash 100' },
    isSigned: false,
    seenHash: changed.includes(seen) ? 'another' : `hash ${seen}`,
  });
}

test.each([
  ['the last event that it has added after another one', [4, 5], 5],
  ['an event in whose place it has added another one', [4, 4], 4],
  ['the last event that it has added after several others', [4, 7, 9], 9],
])('a sidecar notices the loss of %s, if it happened before a check', async (_, positions, lost) => {
  const { watch, audit, log } = watching(trailWithout(lost));
  const own = (position: number, hash: string): AppendedEvent => ({
    ...event,
    position,
    hash,
    prev: `hash ${position - 1}`,
    origin: 'host',
  });
  audit(own(2, 'hash 2'));
  positions.forEach((position, i) => audit(own(position, i === 0 || position > 4 ? `hash ${position}` : 'another')));
  await watch.look();
  await watch.look();
  expect(log.filter(({ level }) => level === 'error')).toMatchObject([
    { position: lost, hash: `hash ${lost}`, last: 100 },
  ]);
});

test('a trail in a file that has lost events is noticed once, and stays inconsistent', async () => {
  const folder = new Folder({ 'accounts.yaml': 'accounts: []\n' });
  const file = folder.file('accounts.yaml');
  const path = folder.file('accounts.audit.jsonl');
  await noticesWhatWasLost(
    new FileStore({ file, env: {} }),
    async (seen) => new Trail(file).state(seen),
    async () => writeFileSync(path, readFileSync(path, 'utf8').split('\n').slice(0, 2).join('\n').concat('\n')),
  );
});

test('the end of a long trail is found without reading all of it, and so is an earlier event', () => {
  const folder = new Folder({ 'accounts.yaml': '' });
  const trail = new Trail(folder.file('accounts.yaml'));
  const added = trail.append(Array.from({ length: 2_000 }, () => event));
  for (const seen of [1, 2, 1_000, 1_999, 2_000]) {
    expect(trail.state(seen)).toMatchObject({ last: { position: 2_000 }, seenHash: added[seen - 1]?.hash });
  }
  expect(trail.state(2_001).seenHash).toBeUndefined();
  expect(trail.state(0).seenHash).toBeUndefined();
});

test('an event of the sidecar is logged at once with its position in the trail; whether the event is signed is reported after the store was read', async () => {
  const { watch, audit, log, told } = watching(async () => {
    throw new Error('not reachable');
  });
  audit({ ...event, position: 7, hash: 'a'.repeat(64), prev: '', origin: '10.0.0.1', requestId: 'r-1' });
  await watch.look();
  expect(await told()).toEqual(sample(7, 1).slice(1));
  expect(log).toMatchObject([
    {
      action: 'accounts_exported',
      origin: '10.0.0.1',
      position: 7,
      hash: 'a'.repeat(64),
      request_id: 'r-1',
      msg: 'audit',
    },
  ]);
});

describe('after the accounts have moved to another store', () => {
  const state = (position: number): TrailState => ({
    last: { position, hash: `hash ${position}` },
    isSigned: false,
    seenHash: undefined,
  });

  test('an event that the former store still adds is logged, and not expected in the new store', async () => {
    const { watch, audit, log, told } = watching(async () => state(3));
    watch.begin();
    audit({ ...event, position: 7, hash: 'a'.repeat(64), prev: '' });
    await watch.look();
    expect([await told(), log.map(({ msg }) => msg)]).toEqual([sample(3, 1), ['audit']]);
  });

  test('events that are still found in the former store are not expected in the new store', async () => {
    const answers = [Promise.withResolvers<TrailState>(), Promise.withResolvers<TrailState>()];
    const { watch, log, told } = watching(async () => answers.shift()?.promise ?? state(3));
    const [former, current] = [...answers];
    const looking = watch.look();
    watch.begin();
    former?.resolve(state(7));
    await looking;
    current?.resolve(state(3));
    await watch.look();
    expect([await told(), log]).toEqual([sample(3, 1), []]);
  });
});

test('an event that was added after another one is not expected in a store to which the accounts move during the check', async () => {
  const answers = [Promise.withResolvers<TrailState>(), Promise.withResolvers<TrailState>()];
  const { watch, audit, log } = watching(async () => answers.shift()?.promise as Promise<TrailState>);
  const [first, second] = [...answers];
  for (const position of [2, 4])
    audit({ ...event, position, hash: `hash ${position}`, prev: `hash ${position - 1}`, origin: 'host' });
  const looking = watch.look();
  first?.resolve({ last: { position: 4, hash: 'hash 4' }, isSigned: false, seenHash: 'hash 2' });
  await eventually('the second check begins', () => answers.length === 0);
  watch.begin();
  second?.resolve({ last: { position: 1, hash: 'of another store' }, isSigned: false, seenHash: undefined });
  await looking;
  expect(log.filter(({ level }) => level === 'error')).toEqual([]);
});

describeWithPostgres('a trail in PostgreSQL', () => {
  const postgres = usePostgres();

  test('that has lost events is noticed', async () => {
    const url = await postgres.createDatabase();
    const store = new PostgresStore(url);
    const pool = await changePool(url, 1);
    onTestFinished(async () => {
      await pool.end();
      await store.close();
    });
    await noticesWhatWasLost(
      store,
      (seen) => trailState(queryOn(pool), seen),
      async () => void (await postgres.psql(url, 'DELETE FROM envelope_sidecar.trail WHERE position > 2')),
    );
  });
});

import { expect, test } from 'vitest';
import { PostgresStore } from '../../../src/accounts/postgres/store.ts';
import type { AuditEvent } from '../../../src/accounts/store.ts';
import { verifyTrail } from '../../../src/audit/verify.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';

const event: AuditEvent = { at: 1, actor: 'user:ana', action: 'trail_begun', account: undefined, details: {} };

describeWithPostgres('while events of the previous version are chained', () => {
  const postgres = usePostgres();

  test('a change waits for no lock of the process that chains them, even if that process no longer responds', async () => {
    const url = await postgres.createDatabase();
    await postgres.psql(
      url,
      `INSERT INTO envelope_sidecar.audit (at, actor, action, account_id, details)
        SELECT '2026-11-01Z', 'user:ana', 'key_issued', 'x', '{}' FROM generate_series(1, 120)`,
    );
    const store = new PostgresStore(url);
    const proxy = await postgres.proxy(url);
    // The process that chains the events gets no response to its latest insertion.
    proxy.onSent = (data) => void (data.includes('INSERT INTO envelope_sidecar.trail') && proxy.hold());
    const other = new PostgresStore(proxy.url);
    const chaining = other.chainOlder(event);
    for (let page = 1; page <= 3; page += 1) {
      await expect.poll(() => proxy.held).not.toBe('');
      const held = `SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE application_name = 'envelope-sidecar'`;
      expect(await postgres.psql(url, held)).toBe('0');
      const changed = await store.change([], () => ({ accounts: [], events: [event], result: undefined }));
      expect(changed).toMatchObject({ appended: [{ position: page * 51 - (page === 3 ? 30 : 0) }] });
      proxy.release();
    }
    // The event that records the chaining is inserted, too.
    await expect.poll(() => proxy.held).not.toBe('');
    proxy.release();
    expect(await chaining).toMatchObject([{ position: 124, details: { events: 120 } }]);
    expect(await verifyTrail(store.trail(), { keys: [], anchors: [] })).toMatchObject({
      events: 124,
      problems: [],
    });
    await Promise.all([store.close(), other.close()]);
  });
});

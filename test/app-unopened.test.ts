import { expect, test } from 'vitest';
import { onlineChecks } from '../src/cli/check-online.ts';
import { expectPlainRefusal, send } from './support/client.ts';
import { scrape } from './support/metrics.ts';
import { acme, configOf, globex, keys, startSidecar } from './support/sidecar.ts';
import { startUpstream } from './support/upstream.ts';

test('credentials in a file that do not open affect only their account, and appear in the log, a metric and the online check', async () => {
  const upstream = await startUpstream();
  const unwrapError = 'the sealed key of account acme in test does not open';
  const other = { ...acme, id: 'other', keys: [] };
  const accounts = [{ ...acme, encryption: {}, unwrapError }, globex, other];
  const config = configOf(upstream.origin, { accounts });
  const sidecar = await startSidecar(config);

  expectPlainRefusal(await send(sidecar, 'POST /api/s2s/x', { key: keys.acme, body: '{}' }), 'accounts_unavailable');
  expect(upstream.seen).toEqual([]);
  expect((await send(sidecar, 'POST /x', { key: keys.globex, body: '{}' })).status).toBe(200);
  expect((await fetch(`${sidecar.adminUrl}/readyz`)).status).toBe(200);
  expect(await scrape(sidecar)).toContain('envelope_sidecar_sealed_credentials_failing_ratio 0.5');
  expect(sidecar.log).toContainEqual(
    expect.objectContaining({ level: 'error', tried: 2, failed: 1, problem: unwrapError }),
  );
  expect(await onlineChecks(config, { clock: Date.now })).toContainEqual({
    check: 'credentials',
    ok: false,
    detail: `1 of 2 accounts failed: ${unwrapError}`,
  });

  sidecar.app.apply({ ...config, accounts: [acme, globex] });
  expect(await scrape(sidecar)).toContain('envelope_sidecar_sealed_credentials_failing_ratio 0\n');
  expect((await send(sidecar, 'GET /x', { key: keys.acme })).status).toBe(200);
});

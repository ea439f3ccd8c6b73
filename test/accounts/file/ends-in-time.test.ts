import { expect, test } from 'vitest';
import { loadInThread } from '../../../src/config/load-in-thread.ts';
import { combine } from '../../../src/config/loaded.ts';
import { envelopeOf, expectPlainRefusal, opened, send } from '../../support/client.ts';
import { accountsFile, Folder, sidecarFile } from '../../support/folder.ts';
import { acmeLive, acmeTest, startSidecar } from '../../support/sidecar.ts';
import { startUpstream } from '../../support/upstream.ts';

const until = Date.parse('2027-01-01T00:00:00Z');
const end = '2027-01-01';
const current = acmeTest;
const previous = acmeLive;
const charge = 'POST /api/s2s/charge';

/** An account with one key, which is derived from the id. */
function entry(id: string, more: object = {}, key: object = {}) {
  return { id, name: id, keys: [{ id, key: keyOf(id), createdAt: '2026-11-01', ...key }], ...more };
}

function keyOf(id: string): string {
  return `sk_test_${id.padEnd(20, '0')}`;
}

const accounts = accountsFile(
  entry('replaced', { encryption: { test: { enabled: true, ...current, previous: { ...previous, until: end } } } }),
  entry('moving', { encryption: { test: { enabled: true, ...current, previous: { until: end } } } }),
  entry('disabled', { encryption: { test: { enabled: false, previous: { ...previous, until: end } } } }),
  entry('expiring', {}, { expiresAt: end }),
  entry('revoked', {}, { revokedAt: '2030-01-01' }),
  entry('inactive', { active: false }),
);

test('a grace and a key loaded by the other thread end in the running sidecar at the exact millisecond', async () => {
  const { origin, seen } = await startUpstream();
  const bodiesFrom = (index: number): readonly string[] => seen.slice(index).map(({ body }) => body);
  const folder = new Folder({ 'sidecar.yaml': sidecarFile(origin), 'accounts.yaml': accounts });
  const loaded = combine(await loadInThread({ file: folder.file('sidecar.yaml'), env: {} }));
  if (!loaded.ok) throw new Error('the files are valid');
  let now = until - 1;
  const sidecar = await startSidecar(loaded.config, () => now);
  const ask = (id: string, body: string) => send(sidecar, charge, { key: keyOf(id), body });
  const byPrevious = envelopeOf(previous, '{"amount":1}');

  expect(opened(previous, await ask('replaced', byPrevious))).toBe('{"ok":true}');
  expect(opened(previous, await ask('disabled', byPrevious))).toBe('{"ok":true}');
  expect((await ask('moving', '{}')).headers['envelope-credentials']).toBe('none');
  expect((await ask('expiring', '{}')).status).toBe(200);
  expect(bodiesFrom(0)).toEqual(['{"amount":1}', '{"amount":1}', '{}', '{}']);

  now = until;
  expect((await ask('replaced', byPrevious)).body).toContain('"decryption_failed"');
  expect((await ask('moving', '{}')).body).toContain('"envelope_required"');
  for (const id of ['expiring', 'revoked']) expectPlainRefusal(await ask(id, '{}'), 'invalid_api_key');
  expectPlainRefusal(await ask('inactive', '{}'), 'account_inactive');
  expect(seen).toHaveLength(4);

  // From now on, the account is treated like one without encryption.
  const response = await ask('disabled', byPrevious);
  expect([response.status, response.headers['envelope']]).toEqual([200, undefined]);
  expect(bodiesFrom(4)).toEqual([byPrevious]);
  expect(opened(current, await ask('replaced', envelopeOf(current, '{}')))).toBe('{"ok":true}');
});

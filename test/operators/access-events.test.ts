import { hostname } from 'node:os';
import { afterEach, expect, test, vi } from 'vitest';
import type { RemoteOperations } from '../../src/accounts/operations-rpc.ts';
import { AccessEvents } from '../../src/operators/access-events.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { startServe } from '../support/command.ts';
import { Folder, sidecarFile, type Contents } from '../support/folder.ts';
import { operatorsOf } from '../support/sidecar.ts';
import { describeOnEachStore } from '../support/stores.ts';
import { dashboard, startApi, token } from './api.ts';

afterEach(() => void vi.useRealTimers());

const otto = { name: 'otto', role: 'admin' } as const;
const silent = createLogger('silent', { write: () => {} });

test('a change through the API is recorded with the address of the client and the id of the request, in the trail and in the log', async () => {
  const { ask, sidecar } = await startApi();
  await ask('POST /accounts', { body: { id: 'acme', name: 'Acme' }, headers: { 'x-request-id': 'mine.1' } });
  const place = { origin: '127.0.0.1', request_id: 'mine.1', actor: 'token:dashboard', position: 1 };
  await vi.waitFor(() => expect(sidecar.log.find(({ msg }) => msg === 'audit')).toMatchObject(place));
  await vi.waitFor(() =>
    expect(sidecar.log.find(({ msg }) => msg === 'operator request')).toMatchObject({ address: '127.0.0.1' }),
  );
});

test('a sign-in to the console is recorded as an event', async () => {
  const { url, sidecar } = await startApi({ operators: { ...operatorsOf([dashboard]), console: true } });
  const response = await fetch(new URL('/console/session', url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' },
    body: JSON.stringify({ token }),
  });
  expect(response.status).toBe(200);
  await vi.waitFor(() =>
    expect(sidecar.log.filter(({ msg }) => msg === 'audit')).toMatchObject([
      { action: 'operator_signed_in', actor: 'token:dashboard', origin: '127.0.0.1', position: 1 },
    ]),
  );
});

test('requests without a known token are recorded as one event a minute, with their number and the last address', () => {
  vi.useFakeTimers();
  const record = vi.fn<RemoteOperations['record']>(async () => {});
  const events = new AccessEvents(() => ({ record }), silent);
  for (let i = 1; i <= 5; i += 1) events.refused({ origin: `10.0.0.${i}`, requestId: `r-${i}` });
  vi.advanceTimersByTime(59_999);
  expect(record).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  const source = { actor: 'unknown', origin: '10.0.0.5', requestId: 'r-5' };
  expect(record.mock.calls).toEqual([['operators_refused', { requests: 5 }, source]]);
  vi.advanceTimersByTime(600_000);
  expect(record).toHaveBeenCalledTimes(1);
  events.refused({ origin: '10.0.0.9', requestId: 'r-9' });
  vi.advanceTimersByTime(60_000);
  expect(record).toHaveBeenCalledTimes(2);
});

test('refused requests whose event cannot be added are counted in the next one', async () => {
  vi.useFakeTimers();
  const record = vi.fn<RemoteOperations['record']>(async () => {});
  record.mockRejectedValueOnce(new Error('no space'));
  const events = new AccessEvents(() => ({ record }), silent);
  const source = { origin: '10.0.0.1', requestId: 'r-1' };
  events.refused(source);
  await vi.advanceTimersByTimeAsync(60_000);
  events.refused(source);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(record.mock.calls.map(([, details]) => details)).toEqual([{ requests: 1 }, { requests: 2 }]);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(record).toHaveBeenCalledTimes(2);
});

test('refused requests of the last minute are recorded as an event when the sidecar stops', async () => {
  const { ask, sidecar } = await startApi();
  for (let i = 0; i < 2; i += 1) expect((await ask('GET /accounts', { token: 'unknown' })).status).toBe(401);
  await vi.waitFor(() => expect(sidecar.log.filter(({ msg }) => msg === 'operator request')).toHaveLength(2));
  await sidecar.app.stop();
  expect(sidecar.log.filter(({ msg }) => msg === 'audit')).toMatchObject([
    { action: 'operators_refused', actor: 'unknown', requests: 2, origin: '127.0.0.1', position: 1 },
  ]);
});

test('sign-ins with a token are recorded as one event a minute, with their number and the last address', async () => {
  vi.useFakeTimers();
  const record = vi.fn<RemoteOperations['record']>(async () => {});
  const events = new AccessEvents(() => ({ record }), silent);
  const source = (i: number) => ({ origin: `10.0.0.${i}`, requestId: `r-${i}` });
  const event = (actor: string, count: number, last: number) => [
    'operator_signed_in',
    { role: 'admin', sign_ins: count },
    { actor: `token:${actor}`, ...source(last) },
  ];
  for (let i = 1; i <= 5; i += 1) events.signedIn(otto, source(i));
  events.signedIn({ ...otto, name: 'ana' }, source(6));
  expect(record.mock.calls).toEqual([event('otto', 1, 1), event('ana', 1, 6)]);
  await vi.advanceTimersByTimeAsync(59_999);
  expect(record).toHaveBeenCalledTimes(2);
  await vi.advanceTimersByTimeAsync(1);
  expect(record.mock.calls.slice(2)).toEqual([event('otto', 4, 5)]);
  events.signedIn(otto, source(7));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(record.mock.calls.slice(3)).toEqual([event('otto', 1, 7)]);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(record).toHaveBeenCalledTimes(4);
});

test('a sign-in after the role of its token has changed is recorded at once, with the new role', async () => {
  vi.useFakeTimers();
  const record = vi.fn<RemoteOperations['record']>(async () => {});
  const events = new AccessEvents(() => ({ record }), silent);
  const source = { origin: '10.0.0.1', requestId: 'r' };
  events.signedIn(otto, source);
  events.signedIn(otto, source);
  events.signedIn({ ...otto, role: 'viewer' }, source);
  await vi.advanceTimersByTimeAsync(60_000);
  const signIn = (role: string) => ['operator_signed_in', { role, sign_ins: 1 }, { actor: 'token:otto', ...source }];
  expect(record.mock.calls).toEqual([signIn('admin'), signIn('viewer'), signIn('admin')]);
});

test('an event that cannot be added causes a warning, and is retried every minute until it is added', async () => {
  vi.useFakeTimers();
  const log: Record<string, unknown>[] = [];
  const write = (line: string): void => void log.push(JSON.parse(line) as Record<string, unknown>);
  const record = vi.fn<RemoteOperations['record']>(async () => {});
  record.mockRejectedValueOnce(new Error('no space')).mockRejectedValueOnce(new Error('no space'));
  const events = new AccessEvents(() => ({ record }), createLogger('info', { write }));
  events.signedIn(otto, { origin: '10.0.0.1', requestId: 'r' });
  await vi.advanceTimersByTimeAsync(59_999);
  expect(log).toMatchObject([{ level: 'warn', action: 'operator_signed_in' }]);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(log).toHaveLength(2);
  expect(record).toHaveBeenCalledTimes(3);
  expect(record.mock.calls[2]).toEqual(record.mock.calls[0]);
});

test('changes to the configuration are recorded as events in order, each once, even if one cannot be added at first', async () => {
  vi.useFakeTimers();
  const record = vi.fn<RemoteOperations['record']>(async () => {});
  record.mockRejectedValueOnce(new Error('no space'));
  const events = new AccessEvents(() => ({ record }), silent);
  events.configurationChanged('1');
  events.configurationChanged('2');
  await vi.advanceTimersByTimeAsync(600_000);
  // The second change causes a retry of the first one.
  expect(record.mock.calls.map(([, details]) => details['configuration_hash'])).toEqual(['1', '1', '2']);
  record.mockRejectedValueOnce(new Error('no space'));
  events.configurationChanged('3');
  await vi.advanceTimersByTimeAsync(59_999);
  expect(record).toHaveBeenCalledTimes(4);
  await vi.advanceTimersByTimeAsync(600_000);
  const source = { actor: 'sidecar', origin: hostname() };
  expect(record.mock.calls.slice(4)).toEqual([['configuration_changed', { configuration_hash: '3' }, source]]);
});

describeOnEachStore('a reload', (newStore) => {
  test('is recorded as an event with a hash if it changes sidecar.yaml, but not if it is refused or changes only accounts.yaml', async () => {
    const accounts = await newStore();
    const fileOf = (more: object): object =>
      sidecarFile('http://127.0.0.1:1', { accounts, operators: { port: 0, token: { file: 'token' } }, ...more });
    const folder = new Folder({ 'sidecar.yaml': fileOf({}), 'accounts.yaml': 'accounts: []\n', token });
    const sidecar = await startServe(folder.file('sidecar.yaml'));
    const reload = async (contents: Contents, msg: string): Promise<void> => {
      const count = sidecar.entries(msg).length + 1;
      folder.replace(contents);
      await sidecar.untilEntries(msg, count);
    };
    if ('file' in accounts) await reload({ 'accounts.yaml': 'accounts: [] # edited\n' }, 'configuration reloaded');
    await reload({ 'sidecar.yaml': '{' }, 'configuration is invalid: the current one is kept');
    await reload({ 'sidecar.yaml': fileOf({ log: { client: 'none' } }) }, 'audit');
    await reload({ 'sidecar.yaml': fileOf({}) }, 'audit');
    await reload({ token: `${token}-other` }, 'audit');
    await sidecar.signal('SIGTERM').ended();
    const hash: unknown = expect.stringMatching(/^[0-9a-f]{64}$/);
    const event = {
      action: 'configuration_changed',
      actor: 'sidecar',
      origin: hostname(),
      configuration_hash: hash,
      hash,
    };
    const events = sidecar.entries('audit');
    expect(events).toMatchObject([
      { ...event, position: 1 },
      { ...event, position: 2 },
      { ...event, position: 3 },
    ]);
    expect(new Set(events.flatMap((line) => [line['hash'], line['configuration_hash']])).size).toBe(6);
    // The first line of the log has the hash of the configuration at startup, which the second change restores.
    expect(sidecar.log[0]).toMatchObject({ msg: 'starting', configuration_hash: events[1]?.['configuration_hash'] });
    expect(JSON.stringify(events)).not.toContain(token);
  });
});

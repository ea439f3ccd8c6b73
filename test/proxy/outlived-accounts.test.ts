import { once } from 'node:events';
import { expect, onTestFinished, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import type { Account } from '../../src/accounts/account.ts';
import type { ApiKey } from '../../src/accounts/api-key.ts';
import { sha256Hex } from '../../src/cryptography.ts';
import { Router } from '../../src/proxy/admit/router.ts';
import { keyNamed, openStore, put, settings, storedAccount } from '../accounts/postgres/fixtures.ts';
import { send } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { untilCollected } from '../support/memory.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { acme, configOf, globex, keys, route, startSidecar, type TestSidecar } from '../support/sidecar.ts';
import { startWebSocketUpstream } from '../support/web-socket-upstream.ts';

const routes = [route('/ws/*', { upgrade: true })];

async function openWebSocket({ port }: TestSidecar, key: string): Promise<WebSocket> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/ws/feed`, { headers: { Authorization: `Bearer ${key}` } });
  onTestFinished(() => socket.terminate());
  await once(socket, 'open');
  return socket;
}

test('routes are read again only if they change, because a stream keeps its routes until its end', async () => {
  const upstream = await startWebSocketUpstream();
  const config = configOf(upstream.origin, { routes });
  const made = vi.spyOn(Router.prototype, 'match');
  onTestFinished(() => made.mockRestore());
  const sidecar = await startSidecar(config);
  const routers = async (): Promise<number> => {
    made.mockClear();
    await send(sidecar, 'GET /ws/feed', { key: keys.globex });
    sidecar.app.apply({ ...config, accounts: [{ ...globex }, { ...acme, name: 'Another' }] });
    const others = { documentation: 'https://pay.example/errors', routes: structuredClone(config.routes) };
    sidecar.app.apply({ ...config, ...others });
    await send(sidecar, 'GET /ws/feed', { key: keys.globex });
    return new Set(made.mock.contexts).size;
  };
  expect(await routers()).toBe(1);
  expect(await routers()).toBe(1);
  sidecar.app.apply({ ...config, routes: [route('/ws/feed', { upgrade: true })] });
  expect(await routers()).toBe(2);
});

test('a WebSocket that stays open keeps only the key of its account that it was opened with', async () => {
  const upstream = await startWebSocketUpstream();
  const config = configOf(upstream.origin, { routes });
  const sidecar = await startSidecar(config);
  const others: WeakRef<ApiKey>[] = [];
  for (let i = 0; i < 10; i += 1) {
    const [own] = globex.keys;
    if (own === undefined) throw new Error('no key');
    const other = { ...own, id: `other-${i}`, hash: sha256Hex(`other ${i}`) };
    others.push(new WeakRef(other));
    sidecar.app.apply({ ...config, accounts: [{ ...globex, keys: [...globex.keys, other] }] });
    await openWebSocket(sidecar, keys.globex);
  }
  sidecar.app.apply(config);
  await untilCollected(others);
});

test('a WebSocket that stays open while accounts change keeps none but its own account in memory', async () => {
  const upstream = await startWebSocketUpstream();
  const config = configOf(upstream.origin, { routes });
  const sidecar = await startSidecar(config);
  const others: WeakRef<Account>[] = [];
  const sockets: WebSocket[] = [];
  for (let i = 0; i < 10; i += 1) {
    const other = { ...acme, name: `Version ${i}` };
    others.push(new WeakRef(other));
    sidecar.app.apply({ ...config, accounts: [{ ...globex }, other] });
    sockets.push(await openWebSocket(sidecar, keys.globex));
  }
  sidecar.app.apply(config);
  await untilCollected(others);
  expect(sockets.map(({ readyState }) => readyState)).toEqual(Array(10).fill(WebSocket.OPEN));
});

describeWithPostgres('with accounts in PostgreSQL', () => {
  const postgres = usePostgres();

  test('a WebSocket that stays open keeps no connection to the database of earlier settings', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'));
    const upstream = await startWebSocketUpstream();
    const config = configOf(upstream.origin, { routes, accounts: [], store: settings(url) });
    const sidecar = await startSidecar(config);
    const connections = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'envelope-sidecar%'`;
    const sockets = [await openWebSocket(sidecar, keyNamed('acme'))];
    const before = Number(await postgres.psql(url, connections));
    expect(before).toBeGreaterThan(0);
    for (let i = 1; i <= 4; i += 1) {
      sidecar.app.apply({ ...config, store: settings(url, { cache: 100 + i }) });
      sockets.push(await openWebSocket(sidecar, keyNamed('acme')));
    }
    await eventually(
      'the earlier connections are closed',
      async () => Number(await postgres.psql(url, connections)) <= before,
    );
    expect(sockets.map(({ readyState }) => readyState)).toEqual(Array(5).fill(WebSocket.OPEN));
  });
});

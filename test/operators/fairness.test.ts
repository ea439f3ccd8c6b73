import { connect } from 'node:net';
import { fastify } from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { sha256Hex } from '../../src/accounts/api-key.ts';
import type { Parts } from '../../src/operators/endpoint.ts';
import { ApiProblem } from '../../src/operators/problems.ts';
import { Routes } from '../../src/operators/routes.ts';
import { openStore, put, slowSearches, storedAccount } from '../accounts/postgres/fixtures.ts';
import { eventually } from '../support/eventually.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { admin, operatorsOf } from '../support/sidecar.ts';
import { dashboard, startApi, storeAt, token } from './api.ts';

const otherToken = 'token-of-another-operator-0123456789';
const operators = operatorsOf([dashboard, admin('other', otherToken)]);

describeWithPostgres('searches of one token', () => {
  const postgres = usePostgres();

  test('wait for each other, so that others are carried out, and events are recorded beside both', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'));
    await postgres.psql(url, slowSearches.sql);
    onTestFinished(async () => void (await postgres.psql(url, slowSearches.end)));
    const { ask, url: api } = await startApi({ operators, store: storeAt(url + slowSearches.option) });
    const sleeping = (): Promise<string> =>
      postgres.psql(url, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
    const search = (sent: string): void => void ask('GET /accounts?search=any', { token: sent }).catch(() => {});

    for (let i = 0; i < 5; i += 1) search(token);
    await expect.poll(sleeping, { timeout: 5_000 }).toBe('1');
    search(otherToken);
    await expect.poll(sleeping, { timeout: 5_000 }).toBe('2');

    const signedIn = await fetch(new URL('/console/session', api), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' },
      body: JSON.stringify({ token }),
    });
    expect(signedIn.status).toBe(200);
    const recorded = "SELECT count(*) FROM envelope_sidecar.trail WHERE line LIKE '%operator_signed_in%'";
    await expect.poll(() => postgres.psql(url, recorded), { timeout: 5_000 }).toBe('1');
    expect(await sleeping()).toBe('2');
  });
});

test('long responses that a client does not read are bounded for its token, and others get theirs', async () => {
  // Longer than a page: the kernel takes up to 3 MB for a client that does not read.
  const text = 'x'.repeat(4 * 1_048_576 - 100);
  const row = { method: 'GET', summary: '', role: 'viewer', accountToken: 'own', input: z.strictObject({}) } as const;
  const response = { status: 200, view: 'Session' } as const;
  const routes = new Routes(() => ({}) as Parts, Date.now);
  const app = fastify();
  app.addHook('onRequest', async (request) => {
    const name = String(request.headers.authorization);
    request.token = { ...dashboard, name, hash: sha256Hex(name) };
  });
  app.setErrorHandler((error, _request, reply) => reply.code(error instanceof ApiProblem ? 503 : 500).send());
  app.route(routes.of({ ...row, path: '/long', operation: 'long', response, run: async () => ({ text }) }));
  app.route(routes.of({ ...row, path: '/short', operation: 'short', response, run: async () => ({}) }));
  const origin = await app.listen({ port: 0, host: '127.0.0.1' });
  onTestFinished(() => app.close());
  const statusOf = async (path: string, authorization: string): Promise<number> => {
    const { status, body } = await fetch(`${origin}/api/v1/${path}`, { headers: { authorization } });
    await body?.cancel();
    return status;
  };

  const leaving = connect(Number(new URL(origin).port), '127.0.0.1').pause();
  leaving.on('error', () => {});
  onTestFinished(() => void leaving.destroy());
  leaving.write('GET /api/v1/long HTTP/1.1\r\nHost: localhost\r\nAuthorization: one\r\n\r\n');
  await eventually('its bytes are held', async () => (await statusOf('long', 'one')) === 503);
  expect(await statusOf('short', 'one')).toBe(200);
  expect(await statusOf('long', 'other')).toBe(200);
  expect(await statusOf('long', 'one')).toBe(503);
  leaving.destroy();
  await eventually('its bytes are given back', async () => (await statusOf('long', 'one')) === 200);
});

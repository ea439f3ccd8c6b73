import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { fastify } from 'fastify';
import { expect, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';
import type { OperatorsToken } from '../../src/config/config.ts';
import type { Endpoint } from '../../src/operators/endpoint.ts';
import { endpoints } from '../../src/operators/endpoints.ts';
import { ApiProblem } from '../../src/operators/problems.ts';
import { Routes } from '../../src/operators/routes.ts';
import { OwnerQueues } from '../../src/operators/owner-queues.ts';
import { openStore, put, slowSearches, storedAccount } from '../accounts/postgres/fixtures.ts';
import { openConnection, type Connection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { request } from '../support/refused.ts';
import { admin, operatorsOf } from '../support/sidecar.ts';
import { settle, turnsOfOtherResponses } from '../support/turns.ts';
import { dashboard, startApi, storeAt, token } from './api.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const otherToken = 'token-of-another-operator-0123456789';
const operators = operatorsOf([dashboard, admin('other', otherToken)]);

describeWithPostgres('searches of one token', () => {
  const postgres = usePostgres();

  test('wait for each other, so that searches of other tokens can run, and events are recorded alongside both', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'));
    await postgres.psql(url, slowSearches.sql);
    const { ask, url: api } = await startApi({ operators, store: storeAt(url + slowSearches.option) });
    // End the searches before the sidecar stops, because it would wait for them.
    onTestFinished(async () => void (await postgres.psql(url, slowSearches.end)));
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

type Row = Pick<Endpoint, 'method' | 'path' | 'operation' | 'role' | 'urgent' | 'makesSecret'> & {
  readonly input?: Endpoint['input'];
  readonly run: () => Promise<object>;
};

/** Serves endpoints over real HTTP. Any token is accepted; the name of the operator is its `Authorization`. */
function appOf(rows: readonly Row[]) {
  const tokens: OperatorsToken[] = [];
  const state = { isServed: async () => true } as unknown as ReturnType<ConstructorParameters<typeof Routes>[0]>;
  const find = ({ headers }: IncomingMessage) => tokens.find(({ name }) => name === String(headers.authorization));
  const routes = new Routes(() => state, find, Date.now, new OwnerQueues());
  const app = fastify();
  app.addHook('onRequest', async (request) => {
    const name = String(request.headers.authorization);
    const [account] = /^acme/.exec(name) ?? [];
    request.token = { ...dashboard, name, hash: sha256Hex(name), account };
    tokens.push(request.token);
  });
  app.setErrorHandler((error, _request, reply) => reply.code(error instanceof ApiProblem ? 503 : 500).send());
  const response = { status: 200, view: 'Session' } as const;
  for (const row of rows) {
    app.route(routes.of({ summary: '', accountToken: 'own', input: z.strictObject({}), response, ...row }));
  }
  return app;
}

test.each([
  ['one token', 'one', 'one'],
  ['all tokens of one account', 'acme-1', 'acme-2'],
])(
  'the requests of %s for the same operation wait for each other, and requests whose client has disconnected are not carried out',
  async (_, one, same) => {
    const running: { readonly operation: string; readonly end: () => void }[] = [];
    const row = (operation: string): Row => ({
      method: 'POST',
      path: `/${operation}`,
      operation,
      role: 'operator',
      run: () => new Promise((resolve) => running.push({ operation, end: () => resolve({}) })),
    });
    const app = appOf([row('replace'), row('revoke')]);
    let aborted = 0;
    app.addHook('onRequestAbort', (_request, done) => {
      aborted += 1;
      done();
    });
    const origin = await app.listen({ port: 0, host: '127.0.0.1' });
    onTestFinished(() => app.close());
    const send = (operation: string, authorization: string, signal?: AbortSignal): Promise<number | void> =>
      fetch(`${origin}/api/v1/${operation}`, {
        method: 'POST',
        headers: { authorization },
        signal: signal ?? null,
      }).then(
        ({ status }) => status,
        () => {},
      );
    const operations = (): readonly string[] => running.map(({ operation }) => operation);

    const first = send('replace', one);
    await eventually('the first request runs', () => running.length === 1);
    const leaving = new AbortController();
    const left = send('replace', same, leaving.signal);
    const revoked = send('revoke', same);
    await eventually('another operation runs', () => running.length === 2);
    const other = send('replace', 'other');
    await eventually('the change of another token runs', () => running.length === 3);
    const last = send('replace', same);
    leaving.abort();
    await left;
    await eventually('the client has disconnected', () => aborted === 1);
    expect(operations()).toEqual(['replace', 'revoke', 'replace']);
    for (const { end } of running) end();
    expect(await Promise.all([first, revoked, other])).toEqual([200, 200, 200]);
    await eventually('the next request runs', () => running.length === 4);
    running.at(-1)?.end();
    expect(await last).toBe(200);
    expect(running).toHaveLength(4);
  },
);

test('an urgent operation does not wait for another one of the same token that waits for a locked account', async () => {
  const urgent = endpoints.filter((each) => each.urgent).map(({ operation }) => operation);
  expect(urgent.toSorted()).toEqual([
    'deactivate_account',
    'disable_encryption',
    'enable_encryption',
    'end_grace',
    'revoke_key',
  ]);
  const ends: (() => void)[] = [];
  const run = (): Promise<object> => new Promise((resolve) => ends.push(() => resolve({})));
  const row = { method: 'POST', role: 'operator', urgent: true, run } as const;
  const app = appOf([
    { ...row, path: '/revoke', operation: 'revoke' },
    { ...row, path: '/disable', operation: 'disable' },
    { ...row, path: '/enable', operation: 'enable', makesSecret: true },
  ]);
  const origin = await app.listen({ port: 0, host: '127.0.0.1' });
  onTestFinished(() => app.close());
  const send = async (authorization: string, operation = 'revoke'): Promise<number> =>
    (await fetch(`${origin}/api/v1/${operation}`, { method: 'POST', headers: { authorization } })).status;
  // Urgent requests with an account's own tokens run one at a time, because they all concern that account.
  const own = [send('acme-1'), send('acme-2', 'disable')];
  await eventually('the first request of the account runs', () => ends.length === 1);
  // Operations that make a secret take longer, so only other operations of that kind wait for them.
  const sent = [send('one'), send('one'), send('one'), send('acme-1', 'enable')];
  await eventually('all other requests run, although none has ended', () => ends.length === 5);
  for (const end of ends) end();
  expect(await Promise.all(sent)).toEqual([200, 200, 200, 200]);
  await eventually('the second request of the account runs', () => ends.length === 6);
  ends.at(-1)?.();
  expect(await Promise.all(own)).toEqual([200, 200]);
});

test('the input of a request is read, and its response written, in its turn', async () => {
  const steps: string[] = [];
  const read: number[] = [];
  let written = 0;
  const row = { method: 'GET', path: '/list', operation: 'list', role: 'viewer' } as const;
  const input = z.strictObject({
    name: z.string().refine((name) => (read.push(performance.now()), steps.push(`${name} is read`))),
  });
  const first = Promise.withResolvers<void>();
  const write = (): object => {
    steps.push('it is written');
    const began = performance.now();
    while (performance.now() < began + 20);
    written ||= performance.now();
    return {};
  };
  const app = appOf([
    {
      ...row,
      input,
      run: async () => {
        steps.push('it runs');
        if (steps.length === 2) await first.promise;
        return { toJSON: write };
      },
    },
  ]);
  const origin = await app.listen({ port: 0, host: '127.0.0.1' });
  onTestFinished(() => app.close());
  let arrived = 0;
  app.server.on('request', () => (arrived += 1));
  const ask = async (name: string) => (await fetch(`${origin}/api/v1/list?name=${name}`)).status;

  const one = ask('one');
  await eventually('the first request runs', () => steps.length === 2);
  const two = ask('two');
  await eventually('the second request has arrived', () => arrived === 2);
  await new Promise((resolve) => setTimeout(resolve, 50));
  first.resolve();
  expect(await Promise.all([one, two])).toEqual([200, 200]);
  const of = (name: string): string[] => [`${name} is read`, 'it runs', 'it is written'];
  expect(steps).toEqual([...of('one'), ...of('two')]);
  // The time spent on writing also counts towards the owner's pause before its next request.
  expect((read[1] ?? 0) - written).toBeGreaterThanOrEqual(55);
});

test('the tokens of an account take turns, however many requests of one token wait', async () => {
  const turns = new OwnerQueues();
  const left = new AbortController();
  const order: string[] = [];
  const take = (token: string, signal = new AbortController().signal): Promise<void> =>
    turns.run({ queue: 'acme', token, isOneOfMany: false }, signal, async () => void order.push(token));
  const leaving = take('two', left.signal).catch((error: unknown) => error);
  const all = ['one', 'one', 'one', 'two', 'three'].map((token) => take(token));
  const gone = take('two', left.signal);
  left.abort(new Error('left'));
  await expect(gone).rejects.toThrow('left');
  await Promise.all([leaving, ...all]);
  expect(order).toEqual(['two', 'one', 'two', 'three', 'one', 'one']);
  await expect(take('one', left.signal)).rejects.toThrow('left');
  await take('four');
  expect(order.at(-1)).toBe('four');
});

const one = { queue: 'one', token: 'token', isOneOfMany: false } as const;

test('after a long piece of work, too, other owners are served for three times as long', async () => {
  const turns = new OwnerQueues();
  const left = new AbortController().signal;
  const busyUntil = (end: number): void => {
    while (performance.now() < end);
  };
  await turns.run(one, left, async () => busyUntil(performance.now() + 50));
  const ended = performance.now();
  await turns.run(one, left, async () => {});
  expect(performance.now() - ended).toBeGreaterThanOrEqual(145);
});

test('between two requests of one token, others are served for three times as long as the first request took', async () => {
  const turns = new OwnerQueues();
  const times: number[] = [];
  const take = () =>
    turns.run(one, new AbortController().signal, async () => {
      times.push(performance.now());
      while (performance.now() < (times.at(-1) ?? 0) + 5);
    });
  await Promise.all([take(), take()]);
  await take();
  const [first = 0, second = 0, third = 0] = times;
  // The pauses may be up to a millisecond short, because timers count whole milliseconds.
  expect(second - first).toBeGreaterThanOrEqual(19);
  expect(third - second).toBeGreaterThanOrEqual(19);
});

test.each([
  ['for its token', 'one', 'one'],
  ['for all tokens of its account', 'acme-1', 'acme-2'],
])(
  'long responses that a client does not read are limited %s, and other tokens get their responses',
  async (_, unread, same) => {
    const text = 'x'.repeat(4 * 1_048_576 - 100);
    const row = { method: 'GET', role: 'viewer' } as const;
    let begun = 0;
    const app = appOf([
      { ...row, path: '/long', operation: 'long', run: async () => ({ text, begun: (begun += 1) }) },
      { ...row, path: '/short', operation: 'short', run: async () => ({}) },
    ]);
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
    const askUnread = (): boolean =>
      leaving.write(`GET /api/v1/long HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${unread}\r\n\r\n`);
    askUnread();
    await eventually('the response is made', () => begun === 1);
    await eventually('the bytes of unread responses are held', async () => {
      if ((await statusOf('long', same)) === 503) return true;
      // Ask for another response, because the kernel had room for all bytes so far.
      askUnread();
      return false;
    });
    expect(await statusOf('short', same)).toBe(200);
    expect(await statusOf('long', 'other')).toBe(200);
    expect(await statusOf('long', same)).toBe(503);
    leaving.destroy();
    await eventually('the bytes are released', async () => (await statusOf('long', same)) === 200);
  },
);

test('a failed sign-in whose client has disconnected is not held until its response would be due', async () => {
  const { url, sidecar } = await startApi();
  const session = new URL('/console/session', url);
  const signIn = async (signal?: AbortSignal): Promise<number | void> => {
    const headers = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' };
    const body = JSON.stringify({ token: 'wrong' });
    const sent = fetch(session, { method: 'POST', headers, body, signal: signal ?? null });
    return sent.then(({ status }) => status).catch(() => {});
  };
  for (let i = 0; i < 12; i += 1) void signIn(AbortSignal.timeout(200));
  const lines = (): number => sidecar.log.filter(({ code }) => code === 'unauthorized').length;
  // Sign-ins whose clients have disconnected end long before the slowest one would get its response, after ten seconds.
  await eventually('all sign-ins have ended', () => lines() === 12, { timeout: 5_000 });
});

test('a sign-in with an invalid body is delayed as one with a wrong token is', async () => {
  const { url } = await startApi();
  const signIn = async (body: string): Promise<number> => {
    const headers = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' };
    return (await fetch(new URL('/console/session', url), { method: 'POST', headers, body })).status;
  };
  for (const body of ['{', '{}', '{"token":1}', '{"other":1}', '[]']) expect(await signIn(body)).toBe(400);
  const began = performance.now();
  expect(await signIn('{"other":1}')).toBe(400);
  expect(performance.now() - began).toBeGreaterThanOrEqual(245);
  expect(await signIn(JSON.stringify({ token }))).toBe(200);
});

test('sign-ins whose bodies are complete at the same moment are read one per turn of the event loop, without a pause for which others wait', async () => {
  // A token that may not sign in is refused at once, in the turn in which it is read.
  const { url } = await startApi({ operators: operatorsOf([{ ...dashboard, role: 'core' }]) });
  const rests = vi.spyOn(OwnerQueues.prototype, 'run');
  onTestFinished(() => rests.mockRestore());
  const clients = await Promise.all(Array.from({ length: 60 }, () => openConnection(Number(new URL(url).port))));
  const body = JSON.stringify({ token });
  const fields = ['Host: localhost', 'Sec-Fetch-Site: same-origin', 'Content-Type: application/json'];
  for (const client of clients) {
    client.send(request('POST /console/session HTTP/1.1', ...fields, `Content-Length: ${body.length}`));
    client.send(body.slice(0, -1));
  }
  await settle();
  const { turns, statuses } = turnsOfOtherResponses();
  for (const client of clients) client.send('}');
  await Promise.all(clients.map((client) => client.untilText('forbidden')));
  expect(new Set(statuses)).toEqual(new Set([403]));
  expect(new Set(turns).size).toBeGreaterThanOrEqual(60);
  expect(rests).not.toHaveBeenCalled();
});

test('requests without a valid token get their responses one per turn of the event loop, and requests with one do not wait', async () => {
  const { url } = await startApi();
  const clients = await Promise.all(Array.from({ length: 61 }, () => openConnection(Number(new URL(url).port))));
  const ask = (client: Connection | undefined, sent: string): void =>
    void client?.send(request('GET /api/v1/session HTTP/1.1', 'Host: localhost', `Authorization: Bearer ${sent}`));
  const operator = clients.pop();
  // Connections are accepted one per turn. This one is the last, so all are accepted when it has a response.
  ask(operator, token);
  await operator?.untilText('"dashboard"');
  const { turns, statuses } = turnsOfOtherResponses();
  for (const client of clients) ask(client, 'wrong');
  ask(operator, token);
  await Promise.all(clients.map((client) => client.untilText('unauthorized')));
  expect(statuses).toHaveLength(61);
  expect(new Set(turns).size).toBeGreaterThanOrEqual(60);
  expect(statuses.indexOf(200)).toBeLessThan(30);
});

test('requests of viewers and of tokens of accounts begin one per turn of the event loop, whatever they ask for, and take turns', async () => {
  const many = [
    { ...dashboard, name: 'viewer', hash: sha256Hex('of-the-viewer'), role: 'viewer' },
    { ...dashboard, name: 'acme', hash: sha256Hex('of-acme'), account: 'acme' },
  ] as const;
  const { url } = await startApi({ operators: operatorsOf([dashboard, ...many]) });
  const asked = ['GET /api/v1/none', 'GET /api/v1/openapi.json', 'POST /api/v1/accounts/other/keys'];
  const clients = await Promise.all(Array.from({ length: 61 }, () => openConnection(Number(new URL(url).port))));
  const ask = (client: Connection | undefined, line: string, sent: string): void =>
    void client?.send(request(`${line} HTTP/1.1`, 'Host: localhost', `Authorization: Bearer ${sent}`));
  const [quiet, operator] = [clients.pop(), clients.pop()];
  ask(operator, 'GET /api/v1/session', token);
  await operator?.untilText('"dashboard"');
  const { turns, statuses } = turnsOfOtherResponses();
  for (const [i, client] of clients.entries()) ask(client, asked[i % asked.length] ?? '', 'of-the-viewer');
  ask(quiet, 'GET /api/v1/none2', 'of-acme');
  ask(operator, 'GET /api/v1/session', token);
  await Promise.all(clients.map((client) => client.untilText('HTTP/1.1')));
  await quiet?.untilText('not_found');
  await eventually('all have a response', () => statuses.length === 61);
  expect(new Set(turns).size).toBeGreaterThanOrEqual(60);
  expect(statuses.indexOf(200)).toBeGreaterThanOrEqual(0);
});

test('of a query and a head that a client makes costly to read, only the necessary parts are read', async () => {
  const { ask, url } = await startApi();
  const parsed = vi.spyOn(globalThis, 'decodeURIComponent');
  onTestFinished(() => parsed.mockRestore());
  const cookie = Array.from({ length: 500 }, (_, i) => `c${i}=%41`).join('; ');
  const { status } = await fetch(new URL('/api/v1/session', url), { headers: { cookie } });
  expect([status, parsed.mock.calls.length]).toEqual([401, 0]);
  const many = Array.from({ length: 1_500 }, (_, i) => `q${i}`).join('&');
  expect((await ask(`GET /audit?${many}`)).status).toBe(400);
  // The first hundred parameters alone make the query invalid, because no endpoint has that many.
  const { body } = await ask(`GET /audit?${'limit=1&'.repeat(100)}other`);
  expect(body).toMatchObject({ status: 400, errors: [{ path: 'limit' }] });
  expect(body['errors']).toHaveLength(1);
});

test('the work of many owners begins one at a time, and others are served for three times as long as it kept the process busy', async () => {
  const turns = new OwnerQueues();
  const times: number[] = [];
  const take = (name: string, isOneOfMany: boolean): Promise<void> =>
    turns.run({ queue: name, token: name, isOneOfMany }, new AbortController().signal, async () => {
      times.push(performance.now());
      while (performance.now() < (times.at(-1) ?? 0) + 10);
      await new Promise(() => {});
    });
  for (const name of ['a', 'b', 'c']) void take(name, true);
  void take('operator', false);
  // Other owners' work does not wait for the operator's.
  expect(times).toHaveLength(1);
  const [before = 0] = times;
  await eventually('all have begun', () => times.length === 4);
  const [, first = 0, second = 0, third = 0] = times;
  expect(first - before).toBeGreaterThanOrEqual(10);
  expect(second - first).toBeGreaterThanOrEqual(39);
  expect(third - second).toBeGreaterThanOrEqual(39);
});

test('work in a lane runs one piece at a time, in turns, and holds up other work for three seconds at most', async () => {
  const turns = new OwnerQueues();
  const left = new AbortController();
  const order: string[] = [];
  const reads: PromiseWithResolvers<void>[] = [];
  const take = (token: string, queue: string, signal = new AbortController().signal): Promise<void> =>
    turns.run({ queue, token, isOneOfMany: true, lane: 'reads' }, signal, async () => {
      order.push(token);
      const read = Promise.withResolvers<void>();
      reads.push(read);
      await read.promise;
    });
  const first = take('one', '1');
  void take('one', '2');
  void take('one', '3');
  const gone = take('one', '4', left.signal);
  void take('two', '5');
  await eventually('the first read runs', () => reads.length === 1);
  // Other work does not wait for it.
  for (const isOneOfMany of [true, false])
    await turns.run(
      { queue: 'other', token: 'one', isOneOfMany },
      left.signal,
      async () => void order.push(isOneOfMany ? 'of many' : 'of an operator'),
    );
  left.abort(new Error('left'));
  await expect(gone).rejects.toThrow('left');
  expect(order).toEqual(['one', 'of many', 'of an operator']);
  reads[0]?.resolve();
  await first;
  await eventually('the second read runs', () => reads.length === 2);
  const began = performance.now();
  await eventually('the next read begins', () => reads.length === 3);
  expect(performance.now() - began).toBeGreaterThanOrEqual(2_950);
  reads[2]?.resolve();
  await eventually('the last read begins', () => reads.length === 4);
  expect(order.slice(3)).toEqual(['one', 'two', 'one']);
});

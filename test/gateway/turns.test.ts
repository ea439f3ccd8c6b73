import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage } from 'node:http';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Turns } from '../../src/gateway/turns.ts';
import { openConnection } from '../support/connection.ts';
import { limitUsed } from '../support/metrics.ts';
import { authorization, request, start } from '../support/refused.ts';
import { configOf, globex, route, startSidecar } from '../support/sidecar.ts';
import { turnsOfResponses } from '../support/turns.ts';

const keyless = request('GET / HTTP/1.1', 'Host: localhost');

/** The `X-Client` of each request, in the order in which the responses end. */
function orderOfResponses(): readonly string[] {
  const order: string[] = [];
  const onFinish = (message: unknown): void => {
    order.push(String((message as { request: IncomingMessage }).request.headers['x-client']));
  };
  subscribe('http.server.response.finish', onFinish);
  onTestFinished(() => void unsubscribe('http.server.response.finish', onFinish));
  return order;
}

test('few requests of strangers begin in a turn of the event loop, however many connections they have', async () => {
  const { sidecar } = await start();
  const clients = await Promise.all(Array.from({ length: 160 }, () => openConnection(sidecar.port)));
  const turns = turnsOfResponses();
  for (const client of clients) client.send(keyless);
  await Promise.all(clients.map((client) => client.untilText('missing_api_key')));
  expect(turns).toHaveLength(160);
  // In each turn, eight that were just read begin, and eight that wait.
  expect(new Set(turns).size).toBeGreaterThanOrEqual(160 / 16);
});

test('new work does not overtake waiting work', async () => {
  const turns = new Turns(8);
  const waiting = turns.next();
  expect(turns.takeNow()).toBe(false);
  await waiting;
  expect(turns.takeNow()).toBe(true);
});

test.each([
  ['a new connection', false, [authorization]],
  // The key itself may have to be looked up again.
  ['a connection that has carried its key before', true, []],
])('a merchant does not wait behind strangers, on %s', async (_name, isKnown, sent) => {
  const config = configOf('http://127.0.0.1:9', { routes: [route('/read', { methods: ['GET'] })] });
  const sidecar = await startSidecar(config);
  const strangers = await Promise.all(Array.from({ length: 160 }, () => openConnection(sidecar.port)));
  const merchant = await openConnection(sidecar.port);
  // Refused at once, so that responses end in the order in which requests begin.
  const refused = (client: string, ...more: string[]): string =>
    request('PUT /read HTTP/1.1', 'Host: localhost', `X-Client: ${client}`, ...more);
  if (isKnown) await merchant.send(refused('known', authorization)).untilText('method_not_allowed');
  const order = orderOfResponses();
  for (const stranger of strangers) stranger.send(refused('stranger'));
  merchant.send(refused('merchant', ...sent));
  await Promise.all(strangers.map((client) => client.untilText('missing_api_key')));
  expect(order).toHaveLength(161);
  expect(order.indexOf('merchant')).toBeLessThan(80);
});

test.each([
  ['of a stranger waits behind requests of strangers', [], 'missing_api_key', true],
  ['of a merchant does not', [authorization], 'account_inactive', false],
])('a WebSocket handshake %s', async (_name, sent, code, waits) => {
  const settings = { routes: [route('/ws', { upgrade: true })], accounts: [{ ...globex, active: false }] };
  const sidecar = await startSidecar(configOf('http://127.0.0.1:9', settings));
  const strangers = await Promise.all(Array.from({ length: 160 }, () => openConnection(sidecar.port)));
  const client = await openConnection(sidecar.port);
  for (const stranger of strangers) stranger.send(keyless);
  client.send(request('GET /ws HTTP/1.1', 'Host: localhost', 'Connection: Upgrade', 'Upgrade: websocket', ...sent));
  await Promise.all([client.untilText(code), ...strangers.map((each) => each.untilText('missing_api_key'))]);
  await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(161));
  const before = sidecar.accessLines().findIndex(({ route }) => route === '/ws');
  expect(before > 80).toBe(waits);
});

test('a stranger whose body the budget has no room for is refused without waiting', async () => {
  const sidecar = await startSidecar(
    configOf('http://127.0.0.1:9', { limits: { buffered: 8 * 2_000, requestBody: 1_000 } }),
  );
  const clients = await Promise.all(Array.from({ length: 160 }, () => openConnection(sidecar.port)));
  const turns = turnsOfResponses();
  const body = 'x'.repeat(1_000);
  const post = request('POST / HTTP/1.1', 'Host: localhost', `Content-Length: ${body.length}`) + body;
  for (const client of clients) client.send(post);
  await Promise.all(clients.map((client) => client.untilText('missing_api_key')));
  expect(turns).toHaveLength(160);
  // Two of them wait.
  expect(new Set(turns).size).toBeLessThan(160 / 16);
  expect(await limitUsed(sidecar, 'buffered')).toBe(0);
});

test('a merchant who pipelines does not wait behind strangers who pipeline', async () => {
  const config = configOf('http://127.0.0.1:9', { routes: [route('/read', { methods: ['GET'] })] });
  const sidecar = await startSidecar(config);
  const strangers = await Promise.all(Array.from({ length: 40 }, () => openConnection(sidecar.port)));
  const merchant = await openConnection(sidecar.port);
  const refused = (client: string, ...more: string[]): string =>
    request('PUT /read HTTP/1.1', 'Host: localhost', `X-Client: ${client}`, ...more);
  const order = orderOfResponses();
  for (const stranger of strangers) stranger.send(refused('stranger').repeat(10));
  merchant.send(refused('merchant', authorization).repeat(10));
  await Promise.all([
    merchant.untilText('method_not_allowed', 2 * 10),
    ...strangers.map((client) => client.untilText('missing_api_key', 2 * 10)),
  ]);
  expect(order).toHaveLength(410);
  expect(order.lastIndexOf('merchant')).toBeLessThan(300);
});

import { expect, test } from 'vitest';
import type { LookupResult } from '../../src/accounts/key-directory.ts';
import { openConnection, type Connection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { startOverDirectory } from '../support/over-directory.ts';
import { request } from '../support/refused.ts';
import { keys } from '../support/sidecar.ts';

const never = new Promise<LookupResult>(() => {});

/** A gateway whose look-ups never end. Requests without a valid key get 64 KiB of its memory. */
async function start(find = (): Promise<LookupResult> => never) {
  const limits = { inFlight: 1_024, buffered: 524_288, requestBody: 16_384 };
  const failedKeys = { attempts: 1, window: 60_000 };
  return startOverDirectory({ find, holds: () => false, serves: () => false }, { ...limits, failedKeys });
}

/** Sends a request with a key that is not cached, and a body that arrives with the head. */
async function sendBody(port: number, length: number): Promise<Connection> {
  const connection = await openConnection(port);
  const head = request(
    'POST /x HTTP/1.1',
    'Host: a',
    `Authorization: Bearer ${keys.globex}`,
    `Content-Length: ${length}`,
  );
  connection.send(`${head}${'x'.repeat(length)}`);
  return connection;
}

test('while keys are looked up, the bodies that have held most are evicted for new bodies, and for heads that arrive in pieces', async () => {
  const { port } = await start();
  const large: Connection[] = [];
  for (let i = 0; i < 6; i += 1) large.push(await sendBody(port, 10_000));
  // The seventh body does not fit.
  const last = await sendBody(port, 10_000);
  const isRefused = ({ received }: Connection): boolean => received.includes('"code":"overloaded"');
  await eventually('one of the others is refused', () => large.filter(isRefused).length === 1);
  const merchant = await openConnection(port);
  const head = request('GET /x HTTP/1.1', 'Host: a', `X-Long: ${'x'.repeat(9_000)}`);
  merchant.send(head.slice(0, 8_000));
  await eventually('another one is refused', () => large.filter(isRefused).length === 2);
  merchant.send(head.slice(8_000));
  await merchant.untilText('missing_api_key');
  expect([...large, last].filter(({ ending }) => ending === 'reset')).toEqual([]);
  expect(isRefused(last)).toBe(false);
});

test('a body of a client that has sent too many wrong keys is evicted before a longer one that has waited longer', async () => {
  let lookUps = 0;
  const { port } = await start(async () => {
    lookUps += 1;
    return lookUps === 2 ? undefined : never;
  });
  const merchant = await sendBody(port, 45_000);
  await eventually('its key is looked up', () => lookUps === 1);
  await (await sendBody(port, 10)).untilText('invalid_api_key');
  const suspect = await sendBody(port, 15_000);
  await eventually('its key is looked up', () => lookUps === 3);
  (await openConnection(port)).send(request('GET /x HTTP/1.1', `X-Long: ${'x'.repeat(9_000)}`).slice(0, 8_000));
  await suspect.untilText('overloaded');
  expect(merchant.received).toBe('');
  expect(merchant.ending).toBe('open');
});

import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import type { KeyDirectory, LookupResult } from '../../src/accounts/key-directory.ts';
import { LookUps, type Guesser } from '../../src/proxy/capacity/look-ups.ts';
import { openConnection, type Connection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { inFlight, limitUsed } from '../support/metrics.ts';
import { request } from '../support/refused.ts';
import { acme, apiKey, configOf, globex, keys, route, startSidecar, type TestSidecar } from '../support/sidecar.ts';
import { settle, waiter } from '../support/turns.ts';
import { startUpstream } from '../support/upstream.ts';

const routes = [route('/open', { keys: ['public', 'secret'] }), route('/api/s2s/*', { envelope: true })];
const cors = ['Origin: https://shop.example', 'Access-Control-Request-Method: POST'];

/** A sidecar with 16 slots, and an upstream that responds only to `/now`. */
async function start(): Promise<TestSidecar> {
  const upstream = await startUpstream((seen, res) => void (seen.url === '/now' && res.end('{"ok":true}')));
  const limits = { inFlight: 16, buffered: 112_000, requestBody: 10_000 };
  return startSidecar(configOf(upstream.origin, { routes, limits }));
}

async function sent({ port }: TestSidecar, ...lines: readonly string[]): Promise<Connection> {
  return (await openConnection(port)).send(request(lines[0] ?? '', 'Host: localhost', ...lines.slice(1)));
}

const bearer = (key: string): string => `Authorization: Bearer ${key}`;

/** Expects that this many requests get a slot, and that the others are refused as overloaded. */
async function expectPlaced(clients: readonly Connection[], count: number): Promise<void> {
  const waiting = (): number => clients.filter(({ received }) => received === '').length;
  await eventually(`no more than ${count} requests wait`, () => waiting() <= count);
  await settle();
  for (const { received } of clients) if (received !== '') expect(received).toContain('"code":"overloaded"');
  expect(waiting()).toBe(count);
}

async function expectServed(sidecar: TestSidecar): Promise<void> {
  const client = await sent(sidecar, 'GET /now HTTP/1.1', bearer(keys.globex));
  expect(await client.untilText('\r\n\r\n')).toContain('200 OK');
}

describe('slots', () => {
  test('an eighth of them is for requests without a key: more preflights wait', async () => {
    const sidecar = await start();
    const clients = await Promise.all(
      Array.from({ length: 5 }, () => sent(sidecar, 'OPTIONS /open HTTP/1.1', ...cors)),
    );
    await eventually('all preflights are in progress', async () => (await inFlight(sidecar)) === 5);
    await settle();
    expect(await limitUsed(sidecar, 'in_flight')).toBe(2);
    expect(clients.map(({ received }) => received)).toEqual(Array(5).fill(''));
    await expectServed(sidecar);
  });

  test('a reload with more of them lets waiting preflights begin', async () => {
    const upstream = await startUpstream(() => {});
    const config = (inFlight: number) => configOf(upstream.origin, { routes, limits: { inFlight } });
    const sidecar = await startSidecar(config(16));
    await Promise.all(Array.from({ length: 5 }, () => sent(sidecar, 'OPTIONS /open HTTP/1.1', ...cors)));
    await eventually('two preflights are sent', () => upstream.seen.length === 2);
    sidecar.app.apply(config(32));
    await eventually('four preflights are sent', () => upstream.seen.length === 4);
    await settle();
    expect(upstream.seen).toHaveLength(4);
  });

  test('half of them are for public keys', async () => {
    const sidecar = await start();
    const clients = await Promise.all(
      Array.from({ length: 12 }, () => sent(sidecar, 'GET /open HTTP/1.1', bearer(keys.globexPublic))),
    );
    await expectPlaced(clients, 8);
    await expectServed(sidecar);
  });

  test('all of them are for secret keys', async () => {
    const sidecar = await start();
    const clients = await Promise.all(
      Array.from({ length: 18 }, () => sent(sidecar, 'GET /x HTTP/1.1', bearer(keys.globex))),
    );
    await expectPlaced(clients, 16);
    for (const client of clients) client.socket.destroy();
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
    await expectServed(sidecar);
  });

  test('a request whose buffered body does not arrive takes no slot, with or without a key', async () => {
    const sidecar = await start();
    const test = ['POST /api/s2s/aes-encrypt HTTP/1.1', `key: ${'k'.repeat(32)}`, `iv: ${'i'.repeat(16)}`];
    const clients: Connection[] = [];
    for (let i = 0; i < 20; i += 1) {
      // One after another, because requests without a key that arrive in the same turn wait, and few of them may wait here.
      clients.push(await sent(sidecar, ...test, 'Content-Length: 5'));
      await eventually('the request has begun', async () => (await inFlight(sidecar)) === i + 1);
    }
    for (let i = 0; i < 20; i += 1)
      clients.push(await sent(sidecar, 'POST /api/s2s/x HTTP/1.1', bearer(keys.acme), 'Content-Length: 5'));
    for (const client of clients) client.send('{');
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(40));
    await expectServed(sidecar);
    const preflight = await sent(sidecar, 'OPTIONS /open HTTP/1.1', ...cors);
    await expectPlaced([preflight], 1);
  });

  test('a request with a streamed body takes a slot at its head', async () => {
    const sidecar = await start();
    const clients = await Promise.all(
      Array.from({ length: 9 }, () =>
        sent(sidecar, 'POST /open HTTP/1.1', bearer(keys.globexPublic), 'Content-Length: 5'),
      ),
    );
    await expectPlaced(clients, 8);
    await expectServed(sidecar);
  });

  test('a streamed body is not asked for if no slot is left', async () => {
    const sidecar = await start();
    const clients = await Promise.all(
      Array.from({ length: 16 }, () => sent(sidecar, 'GET /x HTTP/1.1', bearer(keys.globex))),
    );
    await expectPlaced(clients, 16);
    const post = ['POST /x HTTP/1.1', bearer(keys.globex), 'Content-Length: 5', 'Expect: 100-continue'];
    expect(await (await sent(sidecar, ...post)).untilText('}')).toMatch(/^HTTP\/1\.1 503 /);
  });

  test('the test endpoints take no slot: they are served although preflights have all that are for requests without a key', async () => {
    const sidecar = await start();
    const clients = await Promise.all(
      Array.from({ length: 2 }, () => sent(sidecar, 'OPTIONS /open HTTP/1.1', ...cors)),
    );
    await expectPlaced(clients, 2);
    const encrypt = ['POST /api/s2s/aes-encrypt HTTP/1.1', `key: ${'k'.repeat(32)}`, `iv: ${'i'.repeat(16)}`];
    for (const fields of [[], [bearer(keys.globex)]]) {
      const client = await sent(sidecar, ...encrypt, ...fields, 'Content-Length: 2');
      expect(await client.send('{}').untilText('}')).toContain('"data"');
    }
    await expectServed(sidecar);
  });
});

describe('the bytes of bodies', () => {
  test('an eighth is for requests without a key, so that these cannot keep merchants out', async () => {
    const sidecar = await start();
    const test = ['POST /api/s2s/aes-encrypt HTTP/1.1', `key: ${'k'.repeat(32)}`, `iv: ${'i'.repeat(16)}`];
    const body = JSON.stringify('x'.repeat(9_000));
    const clients = [];
    for (let i = 0; i < 4; i += 1) {
      const client = await sent(sidecar, ...test, `Content-Length: ${body.length + 1}`);
      clients.push(client.send(body));
    }
    await expectPlaced(clients, 1);
    const merchant = await sent(
      sidecar,
      'POST /api/s2s/x HTTP/1.1',
      bearer(keys.acme),
      `Content-Length: ${body.length}`,
    );
    expect(await merchant.send(body).untilText('}')).toContain('"code":"envelope_');
  });
});

describe('look-ups', () => {
  /** A directory that holds one key, and finds others when the test says so. */
  class SlowDirectory implements KeyDirectory {
    asked = 0;
    readonly #waiting: ((found: LookupResult) => void)[] = [];
    holds(hash: string): boolean {
      return hash === 'held';
    }
    find(hash: string): LookupResult | Promise<LookupResult> {
      const [key] = globex.keys;
      if (this.holds(hash)) return key && { account: globex, key };
      this.asked += 1;
      return new Promise((resolve) => void this.#waiting.push(resolve));
    }
    serves(): boolean {
      return false;
    }
    release(): void {
      for (const resolve of this.#waiting.splice(0)) resolve(undefined);
    }
  }

  const client = (): Guesser => ({ networks: ['client'], isThrottled: false });
  const suspect = (): Guesser => ({ networks: ['client'], isThrottled: true });

  test('are bounded, and a key that the directory holds is found beyond the bound', async () => {
    const directory = new SlowDirectory();
    const lookUps = new LookUps(40);
    const all = Array.from({ length: 41 }, async (_, i) => lookUps.find(directory, String(i), client, waiter));
    const [evicted, ...waiting] = [...all.slice(10), ...all.slice(0, 10)];
    expect(await evicted).toBe('unavailable');
    expect(directory.asked).toBe(10);
    expect(lookUps.find(directory, 'held', suspect, waiter)).toMatchObject({ account: globex });
    for (let i = 0; i < 4; i += 1) {
      directory.release();
      await turn();
    }
    expect(await Promise.all(waiting)).toEqual(Array.from({ length: 40 }, () => undefined));
    const again = lookUps.find(directory, 'again', client, waiter);
    directory.release();
    expect(await again).toBeUndefined();
  });

  test('of suspects take turns in a few places, and none is lost', async () => {
    const directory = new SlowDirectory();
    const lookUps = new LookUps(64);
    let finished = 0;
    const suspects = Array.from({ length: 16 }, async (_, i) => {
      await lookUps.find(directory, `suspect-${i}`, suspect, waiter);
      finished += 1;
    });
    expect(directory.asked).toBe(2);
    // Suspects do not delay other look-ups.
    void lookUps.find(directory, 'other', client, waiter);
    expect(directory.asked).toBe(3);
    while (finished < suspects.length) {
      directory.release();
      await turn();
    }
    expect(directory.asked).toBe(17);
    const two = ['a', 'b'].map(async (hash) => lookUps.find(directory, hash, suspect, waiter));
    void lookUps.find(directory, 'c', suspect, waiter);
    expect(directory.asked).toBe(19);
    directory.release();
    await Promise.all(two);
  });
});

test('a valid key is served from an address whose guesses are refused', async () => {
  const upstream = await startUpstream();
  const accounts = [acme, { ...globex, keys: [...globex.keys, apiKey('sk_test_otherotherotherother')] }];
  const limits = { failedKeys: { attempts: 2, window: 60_000 } };
  const sidecar = await startSidecar(configOf(upstream.origin, { accounts, limits }));
  for (const code of ['invalid_api_key', 'invalid_api_key', 'too_many_attempts']) {
    const guess = await sent(sidecar, 'GET /now HTTP/1.1', bearer('sk_test_unknownunknownunknown'));
    expect(await guess.untilText('}')).toContain(code);
  }
  await expectServed(sidecar);
});

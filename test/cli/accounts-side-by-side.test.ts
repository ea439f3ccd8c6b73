import { expect, test, vi } from 'vitest';
import { ask, token, type ApiResponse } from '../operators/api.ts';
import { envelopeOf, expectPlainRefusal, opened, send, type Response } from '../support/client.ts';
import { startCommand, startServe, type Serving } from '../support/command.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { startUpstream } from '../support/upstream.ts';
import { masterKey } from '../support/stores.ts';

const patience = { timeout: 20_000, interval: 20 };

/** Starts two processes on one store. Unless a test says otherwise, operators use the first; merchants use both. */
async function startTwo(accounts: object) {
  const upstream = await startUpstream();
  const operators = { port: 0, token };
  const limits = { failedKeys: '100000/1s' };
  const folder = new Folder({
    'accounts.yaml': 'accounts: []\n',
    'sidecar.yaml': sidecarFile(upstream.origin, { accounts, operators, limits }),
  });
  const config = folder.file('sidecar.yaml');
  const sidecars = [await startServe(config), await startServe(config)] as const;
  const apiOf = async (sidecar: Serving): Promise<string> => {
    const listening = await sidecar.untilEntries('listening', 3);
    const port = listening.find(({ listener }) => listener === 'operators')?.['port'];
    return `http://127.0.0.1:${String(port)}/api/v1`;
  };
  const apis = [await apiOf(sidecars[0]), await apiOf(sidecars[1])] as const;
  const tell =
    (api: string) =>
    (line: string, body?: object, headers: Readonly<Record<string, string>> = {}): Promise<ApiResponse> =>
      ask(api, line, { body, headers });
  return { folder, config, sidecars, first: tell(apis[0]), second: tell(apis[1]) };
}

function charge({ port }: Serving, key: string, body = '{}'): Promise<Response> {
  return send({ port }, 'POST /api/s2s/charge', { key, body });
}

/** Waits until both sidecars meet the expectation. */
async function both(sidecars: readonly Serving[], expectation: (sidecar: Serving) => Promise<void>): Promise<void> {
  await vi.waitFor(async () => {
    for (const sidecar of sidecars) await expectation(sidecar);
  }, patience);
}

/** Goes through the life of a merchant. Each change is made through one sidecar and must take effect in both. */
async function liveThrough(accounts: object): Promise<void> {
  const { sidecars, first, second } = await startTwo(accounts);
  const responses = (key: string, status: number): Promise<void> =>
    both(sidecars, async (sidecar) => expect((await charge(sidecar, key)).status).toBe(status));
  const secrets = async (response: Promise<ApiResponse>): Promise<{ key: string; iv: string; id: string }> =>
    (await response).body as { key: string; iv: string; id: string };
  const opensIn = (key: string, credentials: { key: string; iv: string }): Promise<void> =>
    both(sidecars, async (sidecar) => {
      const response = await charge(sidecar, key, envelopeOf(credentials, '{}'));
      expect(opened(credentials, response)).toBe('{"ok":true}');
    });
  const failsIn = (key: string, credentials: { key: string; iv: string }): Promise<void> =>
    both(sidecars, async (sidecar) =>
      expect((await charge(sidecar, key, envelopeOf(credentials, '{}'))).body).toContain('"decryption_failed"'),
    );

  await first('POST /accounts', { id: 'acme', name: 'Acme' });
  expect((await second('POST /accounts', { id: 'acme', name: 'Acme' })).body['code']).toBe('account_exists');
  const keyOptions = { environment: 'test', kind: 'secret' };
  const one = await secrets(second('POST /accounts/acme/keys', keyOptions));
  await responses(one.key, 200);

  const enabled = await secrets(first('POST /accounts/acme/encryption/test/enable', {}));
  await opensIn(one.key, enabled);
  await responses(one.key, 400);
  const replaced = await secrets(second('POST /accounts/acme/encryption/test/enable', { replace: true }));
  await failsIn(one.key, enabled);
  await opensIn(one.key, replaced);
  await first('POST /accounts/acme/encryption/test/disable');
  await responses(one.key, 200);
  const again = await secrets(first('POST /accounts/acme/encryption/test/enable', {}));
  await opensIn(one.key, again);
  await failsIn(one.key, replaced);

  const rotate = `POST /accounts/acme/keys/${one.id}/rotate`;
  const named = { 'idempotency-key': 'rotate-1' };
  const two = await secrets(first(rotate, { overlap: '1h' }, named));
  const repeated = await second(rotate, { overlap: '1h' }, named);
  expect(repeated.body).toMatchObject({ id: two.id, secret_shown: false });
  expect(repeated.body).not.toHaveProperty('key');
  await responses(two.key, 400);
  await responses(one.key, 400);
  await second(`POST /accounts/acme/keys/${one.id}/revoke`);
  await responses(one.key, 401);
  expect((await first(`POST /accounts/acme/keys/${one.id}/revoke`)).body['code']).toBe('key_revoked');
  await second('POST /accounts/acme/deactivate');
  await responses(two.key, 403);
  await first('POST /accounts/acme/activate');
  await responses(two.key, 400);

  const trail = () => sidecars.map((sidecar) => sidecar.entries('audit').map(({ action }) => action));
  // The sidecar writes its log a moment after the response.
  await vi.waitFor(
    () =>
      expect(trail()).toEqual([
        [
          'account_added',
          'encryption_enabled',
          'encryption_disabled',
          'encryption_enabled',
          'key_rotated',
          'account_activated',
        ],
        ['key_issued', 'encryption_enabled', 'key_revoked', 'account_deactivated'],
      ]),
    patience,
  );
  for (const secret of [one.key, two.key, ...[enabled, replaced, again].flatMap(({ key, iv }) => [key, iv])]) {
    for (const { stdout, stderr } of sidecars) expect(stdout + stderr).not.toContain(secret);
  }
}

test('with two sidecars on one file, a change through one takes effect in the other', async () => {
  await liveThrough({ file: 'accounts.yaml', masterKey });
});

describeWithPostgres('two sidecars on one database', () => {
  const postgres = usePostgres();

  test('both apply a change that is made through one of them', async () => {
    await liveThrough({ postgres: { url: await postgres.createDatabase(), masterKey } });
  });

  test('answer requests and changes with 503 and Retry-After while the database is down', async () => {
    const url = await postgres.createDatabase();
    const { sidecars, first } = await startTwo({ postgres: { url, masterKey } });
    await first('POST /accounts', { id: 'acme', name: 'Acme' });
    await postgres.stop();
    try {
      for (const sidecar of sidecars) {
        const response = await charge(sidecar, 'sk_test_nobodynobodynobody');
        expectPlainRefusal(response, 'accounts_unavailable');
        expect(response.headers['retry-after']).toBe('5');
      }
      for (const line of ['GET /accounts', 'POST /accounts/acme/deactivate']) {
        const { status, headers, body } = await first(line);
        expect([status, headers.get('retry-after'), body['code']]).toEqual([503, '5', 'store_unavailable']);
      }
    } finally {
      await postgres.start();
    }
    await vi.waitFor(
      async () => expect((await first('GET /accounts/acme')).body).toMatchObject({ active: true }),
      patience,
    );
  });

  test('complete an import that was killed if it is run again', async () => {
    const url = await postgres.createDatabase();
    const count = 10_000;
    const lines = Array.from({ length: count }, (_, i) => `${JSON.stringify({ id: `a${i}`, name: `Account ${i}` })}\n`);
    const folder = new Folder({
      'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { accounts: { postgres: { url, masterKey } } }),
      'lines.ndjson': lines.join(''),
    });
    const importing = ['accounts', 'import', folder.file('lines.ndjson'), '--config', folder.file('sidecar.yaml')];
    const added = async (): Promise<number> =>
      Number(await postgres.psql(url, 'SELECT count(*) FROM envelope_sidecar.accounts'));
    const killed = startCommand(importing);
    await vi.waitFor(async () => expect(await added()).toBeGreaterThan(0), patience);
    killed.signal('SIGKILL');
    await killed.ended();
    const before = await added();
    expect(before).toBeLessThan(count);
    const again = startCommand(importing);
    expect(await again.ended()).toEqual({ code: 0, signal: null });
    expect(again.stdout).toBe(`${count - before} added, ${before} already present, 0 refused.\n`);
    expect(await postgres.psql(url, 'SELECT count(*) FROM envelope_sidecar.trail')).toBe(String(count));
  });
});

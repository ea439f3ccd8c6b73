import { expect, test } from 'vitest';
import { envelopeOf, opened, send } from '../support/client.ts';
import { startServe } from '../support/command.ts';
import { commandsOn } from '../support/command-line.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { describeOnEachStore } from '../support/stores.ts';
import { startUpstream } from '../support/upstream.ts';

const path = 'POST /api/s2s/charges';
const token = 't'.repeat(40);
const [testKey, liveKey, nextKey] = ['01'.repeat(32), '02'.repeat(32), '03'.repeat(32)];

describeOnEachStore('with a master key for each environment', (newStore) => {
  /** Creates an account that encrypts in both environments, and configures a sidecar that lacks live's master key. */
  async function start() {
    const store = (await newStore()) as { readonly postgres?: object; readonly file?: string };
    const withKeys = (masterKey: object): object =>
      store.postgres === undefined ? { ...store, masterKey } : { postgres: { ...store.postgres, masterKey } };
    const upstream = await startUpstream();
    const more = { operators: { port: 0, token } };
    const folder = new Folder({
      'accounts.yaml': 'accounts: []\n',
      'sidecar.yaml': sidecarFile(upstream.origin, { accounts: withKeys({ test: testKey }), ...more }),
      'both.yaml': sidecarFile(upstream.origin, { accounts: withKeys({ test: testKey, live: liveKey }) }),
      'rotating.yaml': sidecarFile(upstream.origin, {
        accounts: withKeys({ test: `${nextKey}\n${testKey}`, live: liveKey }),
      }),
      'next-key': nextKey,
    });
    const office = commandsOn(folder.file('both.yaml'));
    if (store.postgres !== undefined) await office.run('accounts migrate');
    await office.json('accounts add acme --name Acme');
    const credentials = await office.json<{ key: string; iv: string }>('encryption enable acme --environment test');
    await office.json('encryption enable acme --environment live');
    const { key } = await office.json<{ key: string }>('keys issue acme --environment test --kind secret');
    return { folder, upstream, office, credentials, key };
  }

  /** The account's stored credentials in an environment. */
  async function stored({ run }: ReturnType<typeof commandsOn>, environment: 'test' | 'live'): Promise<unknown> {
    const { encryption } = JSON.parse((await run('accounts export')).stdout) as { encryption: Record<string, unknown> };
    return encryption[environment];
  }

  test('a sidecar that has only the key of test serves test, and neither opens nor changes what is sealed for live', async () => {
    const { folder, upstream, office, credentials, key } = await start();
    const sidecar = await startServe(folder.file('sidecar.yaml'));
    const answer = await send(sidecar, path, { key, body: envelopeOf(credentials, '{"amount":1}') });
    expect(opened(credentials, answer)).toBe('{"ok":true}');
    expect(upstream.seen.map(({ body }) => body)).toEqual(['{"amount":1}']);

    const sealedForLive = await stored(office, 'live');
    const { run } = commandsOn(folder.file('sidecar.yaml'));
    expect(await run('check --online')).toMatchObject({ stdout: expect.stringMatching(/^ok +credentials/m) as string });
    expect(await run('encryption enable acme --environment live --replace')).toMatchObject({
      code: 78,
      stderr:
        'encryption enable: credentials in live need the master key of live: set accounts.masterKey.live (master_key_missing)\n',
    });
    const port = sidecar.entries('listening').find(({ listener }) => listener === 'operators')?.['port'];
    const seal = await send({ port: Number(port) }, 'POST /api/v1/accounts/acme/encryption/live/seal', {
      key: token,
      body: '{}',
    });
    expect(JSON.parse(seal.body)).toMatchObject({ status: 500, code: 'master_key_missing' });
    expect((await run('encryption enable acme --environment test --replace')).code).toBe(0);
    expect(await stored(office, 'live')).toEqual(sealedForLive);
    expect((await office.run('check --online')).stdout).toMatch(/^ok +credentials/m);
  });

  test('a rekey wraps only the environment that the new master key is for', async () => {
    const { folder, office } = await start();
    const before = { test: await stored(office, 'test'), live: await stored(office, 'live') };
    const rekey = `accounts rekey --new-master-key-file ${folder.file('next-key')}`;
    expect((await office.run(rekey)).code).toBe(78);
    const rotating = commandsOn(folder.file('rotating.yaml'));
    expect((await rotating.run(rekey)).stdout).toMatch(
      /^1 account was wrapped with the new master key, KCV [0-9a-f]{10}\.\nWhen all sidecars have the new key/,
    );
    expect(await stored(office, 'live')).toEqual(before.live);
    expect(await stored(office, 'test')).not.toEqual(before.test);
    expect((await rotating.run('check --online')).stdout).toMatch(/^ok +credentials/m);
    expect((await rotating.run('check')).code).toBe(0);
  });
});

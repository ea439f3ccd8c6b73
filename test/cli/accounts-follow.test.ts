import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { EnabledView, IssuedKeyView } from '../../src/accounts/views.ts';
import { envelopeOf, opened, send, type Response } from '../support/client.ts';
import { startServe, type Serving } from '../support/command.ts';
import { commandsOn } from '../support/command-line.ts';
import { eventually } from '../support/eventually.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { startUpstream } from '../support/upstream.ts';

/** Starts two sidecars side by side on one accounts file, on which `run` runs commands. */
async function start(prepare: (folder: Folder) => void = () => {}) {
  const upstream = await startUpstream();
  const folder = new Folder({
    'accounts.yaml': 'accounts: []\n',
    'sidecar.yaml': sidecarFile(upstream.origin, { limits: { failedKeys: '100000/1s' } }),
  });
  prepare(folder);
  const config = folder.file('sidecar.yaml');
  const sidecars = [await startServe(config), await startServe(config)] as const;
  return { folder, run: commandsOn(config).json, sidecars };
}

const line = 'POST /api/s2s/charge';
const charge = '{"amount":1}';

async function statuses(
  sidecars: readonly Serving[],
  key = '',
  body: string = charge,
): Promise<(number | undefined)[]> {
  const responses = await Promise.all(sidecars.map(({ port }) => send({ port }, line, { key, body })));
  return responses.map(({ status }) => status);
}

async function untilAnswered(sidecars: readonly Serving[], key: string | undefined, status: number): Promise<void> {
  await eventually(`all sidecars respond with ${status}`, async () =>
    (await statuses(sidecars, key)).every((each) => each === status),
  );
}

test('running sidecars follow changes made by commands', async () => {
  const { run, sidecars } = await start();
  await run('accounts add acme --name Acme');
  const { key, id } = await run<IssuedKeyView>('keys issue acme --environment test --kind secret');
  await untilAnswered(sidecars, key, 200);
  await run('accounts deactivate acme');
  await untilAnswered(sidecars, key, 403);
  await run('accounts activate acme');
  await untilAnswered(sidecars, key, 200);
  await run('encryption enable acme --environment test');
  await untilAnswered(sidecars, key, 400);
  await run(`keys revoke acme ${id}`);
  await untilAnswered(sidecars, key, 401);
});

test('a sidecar follows changes in the folder that a symbolic link points to', async () => {
  const { folder, run, sidecars } = await start((prepared) => {
    mkdirSync(prepared.file('data'));
    writeFileSync(prepared.file('data/real.yaml'), 'accounts: []\n');
    prepared.write({
      'sidecar.yaml': readFileSync(prepared.file('sidecar.yaml'), 'utf8').replace('accounts.yaml', 'link.yaml'),
    });
    symlinkSync('data/real.yaml', prepared.file('link.yaml'));
  });
  await run('accounts add acme --name Acme');
  const { key } = await run<IssuedKeyView>('keys issue acme --environment test --kind secret');
  await untilAnswered(sidecars, key, 200);
  expect(readFileSync(folder.file('data/real.yaml'), 'utf8')).toContain('acme');
});

test('during a grace period, the log and the metrics show which accounts still use the previous credentials', async () => {
  const { run, sidecars } = await start();
  const [sidecar] = sidecars;
  await run('accounts add acme --name Acme');
  const { key = '' } = await run<IssuedKeyView>('keys issue acme --environment test --kind secret');
  const before = await run<EnabledView>('encryption enable acme --environment test');
  await untilAnswered(sidecars, key, 400);
  const sealedWith = ({ key: aes = '', iv = '' }: EnabledView): Promise<Response> =>
    send(sidecar, line, { key, body: envelopeOf({ key: aes, iv }, charge) });
  expect((await sealedWith(before)).status).toBe(200);
  const after = await run<EnabledView>('encryption enable acme --environment test --replace --grace 1h');
  await eventually(
    'envelopes with the new credentials are accepted',
    async () => (await sealedWith(after)).status === 200,
  );

  const response = await sealedWith(before);
  expect(response.headers['envelope-credentials']).toBe('previous');
  expect(opened({ key: before.key ?? '', iv: before.iv ?? '' }, response)).toBe('{"ok":true}');
  const access = await eventually('an access log line names the previous credentials', () =>
    sidecar.entries('request').findLast(({ credentials }) => credentials === 'previous'),
  );
  expect(access).toMatchObject({ account: 'acme', status: 200 });
  const metrics = await (await fetch(`${sidecar.adminUrl}/metrics`)).text();
  expect(metrics).toContain('envelope_sidecar_grace_requests_total{environment="test",credentials="current"} 1\n');
  expect(metrics).toContain('envelope_sidecar_grace_requests_total{environment="test",credentials="previous"} 1\n');

  await run('encryption disable acme --environment test');
  await untilAnswered(sidecars, key, 200);
  await run('encryption enable acme --environment test');
  await eventually(
    'envelopes with the old credentials are refused',
    async () => (await sealedWith(before)).status === 400,
  );
  expect((await sealedWith(after)).status).toBe(400);
});

import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { expect, test } from 'vitest';
import { send } from '../support/client.ts';
import { accountsFile, Folder, globexEntry, sidecarFile, type Contents } from '../support/folder.ts';
import { startServe, type Serving } from '../support/command.ts';
import { eventually } from '../support/eventually.ts';
import { keys } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';
import { samplesOf } from '../telemetry/samples.ts';

const revoked = (): Contents => {
  const entry = globexEntry(keys.globex, keys.globexPublic);
  const [first, second] = entry['keys'] as object[];
  return accountsFile({ ...entry, keys: [{ ...first, revokedAt: '2026-11-02' }, second] });
};

async function start(): Promise<{ sidecar: Serving; folder: Folder; origin: string }> {
  const { origin } = await startUpstream();
  const accounts = accountsFile(globexEntry(keys.globex, keys.globexPublic));
  const folder = new Folder({ 'sidecar.yaml': sidecarFile(origin), 'accounts.yaml': accounts });
  return { sidecar: await startServe(folder.file('sidecar.yaml')), folder, origin };
}

const status = async (sidecar: Serving, key: string, path = '/x'): Promise<number> =>
  (await send(sidecar, `GET ${path}`, { key })).status;

async function untilStatus(sidecar: Serving, key: string, wanted: number, path?: string): Promise<void> {
  await eventually(`${path} gets ${wanted}`, async () => (await status(sidecar, key, path)) === wanted);
}

test('a key that is revoked in accounts.yaml stops working although sidecar.yaml is invalid', async () => {
  const { sidecar, folder } = await start();
  expect(await status(sidecar, keys.globex)).toBe(200);
  folder.replace({ 'sidecar.yaml': 'listen: [\n', 'accounts.yaml': revoked() });
  await untilStatus(sidecar, keys.globex, 401);
  const [problem] = await sidecar.untilEntries('configuration is invalid: the current one is kept');
  expect(problem).toMatchObject({ level: 'error', file: 'sidecar' });
  expect(sidecar.entries('configuration reloaded').at(-1)).toMatchObject({ files: ['accounts'] });
  const { values } = await samplesOf(sidecar);
  const reloads = (file: string, outcome: string): number =>
    values.get(`envelope_sidecar_config_reloads_total{file="${file}",outcome="${outcome}"}`) ?? 0;
  expect(reloads('sidecar', 'failed')).toBeGreaterThan(0);
  expect(reloads('accounts', 'failed')).toBe(0);
  expect(reloads('accounts', 'ok')).toBeGreaterThan(0);
});

test('a route that is removed from sidecar.yaml is closed although accounts.yaml is invalid', async () => {
  const { sidecar, folder, origin } = await start();
  const open = { routes: [{ path: '/open', keys: ['public'] }] };
  folder.replace({ 'sidecar.yaml': sidecarFile(origin, open) });
  await untilStatus(sidecar, keys.globexPublic, 200, '/open');
  folder.replace({ 'accounts.yaml': '{' });
  await sidecar.untilEntries('configuration is invalid: the current one is kept');
  folder.replace({ 'sidecar.yaml': sidecarFile(origin) });
  await untilStatus(sidecar, keys.globexPublic, 403, '/open');
  expect(await status(sidecar, keys.globex)).toBe(200);
  expect(sidecar.entries('configuration reloaded').at(-1)).toMatchObject({ files: ['sidecar'] });
});

test('a FIFO in place of sidecar.yaml is a problem, and blocks neither reloads nor SIGTERM', async () => {
  const { sidecar, folder } = await start();
  putFifo(folder, 'sidecar.yaml');
  folder.replace({ 'accounts.yaml': revoked() });
  await untilStatus(sidecar, keys.globex, 401);
  await expectRefusedFifo(sidecar);
});

test('a FIFO in place of accounts.yaml is a problem, and blocks neither reloads nor SIGTERM', async () => {
  const { sidecar, folder, origin } = await start();
  putFifo(folder, 'accounts.yaml');
  folder.replace({ 'sidecar.yaml': sidecarFile(origin, { routes: [{ path: '/open', keys: ['public'] }] }) });
  await untilStatus(sidecar, keys.globexPublic, 200, '/open');
  expect(await status(sidecar, keys.globex)).toBe(200);
  await expectRefusedFifo(sidecar);
});

function putFifo(folder: Folder, name: string): void {
  rmSync(folder.file(name));
  execFileSync('mkfifo', [folder.file(name)]);
}

async function expectRefusedFifo(sidecar: Serving): Promise<void> {
  const [entry] = await sidecar.untilEntries('configuration is invalid: the current one is kept');
  expect(entry?.['problem']).toMatch(/cannot read the file: it is not a regular file$/);
  sidecar.signal('SIGTERM');
  expect(await sidecar.ended()).toEqual({ code: 0, signal: null });
}

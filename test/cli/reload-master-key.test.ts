import { expect, test } from 'vitest';
import { runCommand } from '../support/cli.ts';
import { send } from '../support/client.ts';
import { startServe, type Serving } from '../support/command.ts';
import { eventually } from '../support/eventually.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { startUpstream } from '../support/upstream.ts';

const [first, second, third] = [7, 8, 9].map((byte) => Buffer.alloc(32, byte).toString('base64'));
const refusal = 'configuration is invalid: the current one is kept';

/** Starts a sidecar with two merchants, `acme` and `zeta`, in a file. The credentials of `zeta` are sealed with another master key. */
async function startWithTwo(masterKey: object, environmentOfZeta: string, files: object) {
  const upstream = await startUpstream();
  const environments = {
    test: { upstream: upstream.origin, hosts: ['127.0.0.1'] },
    live: { upstream: upstream.origin, hosts: ['live.local'] },
  };
  const accounts = { file: 'accounts.yaml', masterKey };
  const folder = new Folder({
    'sidecar.yaml': sidecarFile(upstream.origin, { environments, accounts }),
    'accounts.yaml': { accounts: [] },
    ...files,
  });
  const config = folder.file('sidecar.yaml');
  const run = async <T>(line: string): Promise<T> => {
    const { stdout } = await runCommand([...line.split(' '), '--json', '--config', config]);
    return JSON.parse(stdout) as T;
  };
  const add = async (id: string): Promise<{ id: string; key: string }> => {
    await run(`accounts add ${id} --name ${id}`);
    return run(`keys issue ${id} --environment test --kind secret`);
  };
  const acme = await add('acme');
  const zeta = await add('zeta');
  await run('encryption enable acme --environment test');
  return {
    folder,
    run,
    acme,
    zeta,
    config,
    enableZeta: () => run(`encryption enable zeta --environment ${environmentOfZeta}`),
  };
}

const status = async (sidecar: Serving, key: string): Promise<number> =>
  (await send(sidecar, 'GET /api/v1/balance', { key })).status;

async function expectRevocations(
  { run, acme, zeta, config }: Awaited<ReturnType<typeof startWithTwo>>,
  spoil: () => void,
): Promise<void> {
  const sidecar = await startServe(config);
  expect(await status(sidecar, acme.key)).toBe(200);
  spoil();
  await sidecar.untilEntries(refusal);
  const problems = sidecar.entries(refusal).map(({ file, problem }) => `${String(file)} ${String(problem)}`);
  expect(problems[0]).toMatch(
    /^sidecar .* {2}accounts {2}not applied; .*: some accounts that work now would stop working$/,
  );
  expect(problems.some((problem) => problem.startsWith('accounts '))).toBe(false);
  await run(`keys revoke acme ${acme.id}`);
  await eventually('the revocation is in force', async () => (await status(sidecar, acme.key)) === 401, {
    timeout: 5_000,
  });
  await run('accounts deactivate zeta');
  await eventually('the deactivation is in force', async () => (await status(sidecar, zeta.key)) === 403, {
    timeout: 5_000,
  });
}

test('while a master key for one environment is refused because it is wrong, keys can be revoked', async () => {
  const masterKey = { test: { file: 'test-key' }, live: { file: 'live-key' } };
  const merchants = await startWithTwo(masterKey, 'live', { 'test-key': first, 'live-key': second });
  await merchants.enableZeta();
  await expectRevocations(merchants, () => merchants.folder.replace({ 'live-key': String(third) }));
});

test('while the removal of a master key is refused because it is still in use, keys can be revoked', async () => {
  const merchants = await startWithTwo({ file: 'master-key' }, 'test', { 'master-key': first });
  merchants.folder.replace({ 'master-key': `${second}\n${first}` });
  await merchants.enableZeta();
  await expectRevocations(merchants, () => merchants.folder.replace({ 'master-key': String(second) }));
});

test.each([
  ['one account', 'zeta'],
  ['the only account that encrypts', 'acme'],
])(
  'if a command seals the credentials of %s with a wrong master key, the file is refused, but keys can be revoked',
  async (_, id) => {
    const merchants = await startWithTwo({ file: 'master-key' }, 'test', { 'master-key': first });
    const { folder, run, acme, zeta, config } = merchants;
    if (id === 'zeta') await merchants.enableZeta();
    const sidecar = await startServe(config);
    folder.replace({ 'master-key': String(third) });
    await run(`encryption enable ${id} --environment test --replace`);
    folder.replace({ 'master-key': String(first) });
    const kept = (): string[] =>
      sidecar.entries(refusal).flatMap(({ file, problem }) => (file === 'accounts' ? String(problem) : []));
    await eventually('the credentials are refused', () => kept().length > 0);
    expect(kept()[0]).toMatch(new RegExp(`account ${id} in test does not open.*; its current credentials are kept$`));
    expect(await status(sidecar, acme.key)).toBe(200);
    await run(`keys revoke acme ${acme.id}`);
    await eventually('the revocation is in force', async () => (await status(sidecar, acme.key)) === 401, {
      timeout: 5_000,
    });
    expect(await status(sidecar, zeta.key)).toBe(200);
    await run('accounts deactivate zeta');
    await eventually('the deactivation is in force', async () => (await status(sidecar, zeta.key)) === 403, {
      timeout: 5_000,
    });
  },
);

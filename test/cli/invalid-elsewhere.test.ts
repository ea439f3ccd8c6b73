import { expect, test } from 'vitest';
import { lines, withAcme } from '../support/command-line.ts';
import { sidecarFile, type Contents } from '../support/folder.ts';

/** Creates an account with a key. Also returns a function that puts a mistake into the sidecar's file. */
async function acmeWithKey() {
  const acme = await withAcme();
  const { id } = await acme.json<{ id: string }>('keys issue acme --environment test --kind secret');
  const spoil = (more: Contents | string): void => {
    const content = typeof more === 'string' ? more : sidecarFile('http://127.0.0.1:1', more);
    acme.folder.write({ 'sidecar.yaml': content });
  };
  return { ...acme, id, spoil };
}

test.each<[string, Contents]>([
  ['listen.port', { listen: { port: 70_000 } }],
  ['admin.prot', { admin: { prot: 1 } }],
  ['operators.tokens', { operators: { tokens: 1 } }],
  ['environments.test.upstream', { environments: { test: { upstream: 'ftp://core' } } }],
  ['routes[0].path', { routes: [{ path: 'a' }] }],
  ['cipherTest.environments[0]', { cipherTest: { environments: ['prod'] } }],
  ['trustedProxies[0]', { trustedProxies: ['a'] }],
  ['limits.requestBody', { limits: { requestBody: 'a' } }],
  ['timeouts.header', { timeouts: { header: 'soon' } }],
  ['report[0]', { report: ['a'] }],
  ['tracing.otlp', { tracing: { otlp: 'a' } }],
  ['documentation', { documentation: 'a' }],
  ['log.level', { log: { level: 'loud' } }],
])('a key is found and revoked, with a warning, although %s is wrong', async (member, more) => {
  const { run, json, id, folder, spoil } = await acmeWithKey();
  spoil(more);
  expect((await run('check')).code).toBe(78);
  const place = `warning: ${folder.file('sidecar.yaml')}:1:`;
  for (const command of ['keys list acme', `keys revoke acme ${id}`]) {
    const { code, stderr } = await run(command);
    expect([command, code]).toEqual([command, 0]);
    const [warning = ''] = lines(stderr);
    expect(warning.slice(0, place.length)).toBe(place);
    expect(warning.split(/ +/)[2]).toBe(member);
  }
  expect(lines((await run('audit list')).stdout)[1]).toContain('key_revoked');
  expect(await json<object>('accounts show acme')).toMatchObject({ keys: [{ id, state: 'revoked' }] });
});

test.each<[string, Contents | string]>([
  ['a member that is unknown: it may be meant for the store', { acounts: { file: 'other.yaml' } }],
  ['a member that begins like a known one', { 'log-audit': { key: 'a' } }],
  ['the place of the store', { accounts: { file: 'accounts.yaml', fiel: 'a' } }],
  ["the trail's key: the event would not be signed", { audit: { key: 'a' } }],
  ['the KMS', { kms: { socket: '' } }],
  ['the rules for keys', { keys: { maxAge: 'long' } }],
  ['its syntax', '{ "accounts": { "file": "accounts.yaml" }, "limits": ['],
  ['all of it', '[]'],
])('no command runs with a mistake in %s', async (_, more) => {
  const { run, id, file, spoil } = await acmeWithKey();
  const before = file();
  spoil(more);
  expect(await run(`keys revoke acme ${id}`)).toMatchObject({ code: 78, stdout: '' });
  expect(file()).toBe(before);
});

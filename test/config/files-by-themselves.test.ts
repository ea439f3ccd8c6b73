import { rmSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { StoreSettings } from '../../src/config/config.ts';
import { loadConfig, loadFiles } from '../../src/config/load.ts';
import type { LoadedFiles } from '../../src/config/loaded.ts';
import { accountsFile, Folder, globexEntry, sidecarFile, type Contents } from '../support/folder.ts';
import { keys } from '../support/sidecar.ts';

const upstream = 'http://127.0.0.1:1';
const valid = { 'sidecar.yaml': sidecarFile(upstream), 'accounts.yaml': accountsFile(globexEntry(keys.globex)) };
const broken = 'accounts: [ { id: a b, name: A } ]\n';
const brokenProblem = expect.stringMatching(/^accounts\[0\]\.id {2}expected/) as string;

/** A folder whose files have been loaded once. `load` loads them again. */
class Running {
  readonly folder: Folder;
  readonly #store: StoreSettings;

  constructor(contents: Contents = valid) {
    this.folder = new Folder(contents);
    const loaded = loadConfig(this.folder.file('sidecar.yaml'), {});
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
    this.#store = loaded.config.store;
  }

  load(contents: Contents): LoadedFiles {
    this.folder.write(contents);
    return loadFiles(this.folder.file('sidecar.yaml'), {}, this.#store);
  }
}

/** The result for one file: its problems as `path  message`, or, if it is valid, the ids of the accounts or the log level. */
function outcome(content: LoadedFiles['sidecar'] | LoadedFiles['accounts']): unknown {
  if (content === undefined) return undefined;
  if (!content.ok) return content.problems.map(({ path, message }) => `${path}  ${message}`);
  return 'log' in content.value ? content.value.log.level : content.value.map(({ id }) => id);
}

const outcomes = ({ sidecar, accounts }: LoadedFiles): unknown => ({
  sidecar: outcome(sidecar),
  accounts: outcome(accounts),
});

describe('an invalid sidecar.yaml', () => {
  test.each([
    ['in a member', sidecarFile(upstream, { log: { level: 'loud' } })],
    ['as YAML', '{'],
    ['in its accounts', sidecarFile(upstream, { accounts: { file: 'accounts.yaml', masterKey: 'x' } })],
    ['in the name of the accounts', sidecarFile(upstream, { accounts: {} })],
  ])('%s does not prevent accounts from being loaded', (_, sidecar) => {
    const accounts = accountsFile(globexEntry(), { id: 'new', name: 'New' });
    const loaded = new Running().load({ 'sidecar.yaml': sidecar, 'accounts.yaml': accounts });
    expect(loaded.sidecar.ok).toBe(false);
    expect(outcome(loaded.accounts)).toEqual(['globex', 'new']);
  });

  test('is still watched, and so are the accounts', () => {
    const running = new Running();
    const { files } = running.load({ 'sidecar.yaml': '{' });
    expect([...files.keys()].toSorted()).toEqual(
      ['accounts.yaml', 'sidecar.yaml'].map((name) => running.folder.file(name)),
    );
  });

  test('has its own problems, besides those of invalid accounts', () => {
    const loaded = new Running().load({ 'sidecar.yaml': '', 'accounts.yaml': broken });
    expect(outcomes(loaded)).toEqual({
      sidecar: ['.  the file is empty'],
      accounts: [brokenProblem],
    });
  });
});

describe('an invalid accounts.yaml', () => {
  test('does not prevent sidecar.yaml from being loaded', () => {
    const loaded = new Running().load({
      'sidecar.yaml': sidecarFile(upstream, { log: { level: 'warn' } }),
      'accounts.yaml': broken,
    });
    expect(outcome(loaded.sidecar)).toBe('warn');
    expect(loaded.accounts?.ok).toBe(false);
  });

  test('that is missing is a problem of the member that names it', () => {
    const running = new Running();
    rmSync(running.folder.file('accounts.yaml'));
    expect(outcomes(running.load({}))).toEqual({
      sidecar: 'info',
      accounts: ['accounts.file  cannot read the file: it does not exist'],
    });
  });
});

describe('a sidecar.yaml that names another source of accounts', () => {
  const moved = sidecarFile(upstream, { accounts: { file: 'others.yaml' }, log: { level: 'warn' } });

  test('is applied together with the accounts it names', () => {
    const others = accountsFile({ id: 'other', name: 'Other' });
    const loaded = new Running().load({ 'sidecar.yaml': moved, 'others.yaml': others, 'accounts.yaml': broken });
    expect(outcomes(loaded)).toEqual({ sidecar: 'warn', accounts: ['other'] });
  });

  test('is not applied if these accounts are invalid, and the accounts in use are still read', () => {
    const accounts = accountsFile(globexEntry(), { id: 'new', name: 'New' });
    const running = new Running();
    const loaded = running.load({ 'sidecar.yaml': moved, 'others.yaml': broken, 'accounts.yaml': accounts });
    expect(outcomes(loaded)).toEqual({
      sidecar: [
        'accounts  not applied; the current settings are kept: the accounts that the new settings name are not valid',
        brokenProblem,
      ],
      accounts: ['globex', 'new'],
    });
    expect([...loaded.files.keys()].toSorted()).toEqual(
      ['accounts.yaml', 'others.yaml', 'sidecar.yaml'].map((name) => running.folder.file(name)),
    );
  });

  test('is applied without accounts from a file if it names a database', () => {
    const postgres = { url: 'postgres://127.0.0.1/none', masterKey: Buffer.alloc(32, 1).toString('base64') };
    const loaded = new Running().load({ 'sidecar.yaml': sidecarFile(upstream, { accounts: { postgres } }) });
    expect(outcomes(loaded)).toEqual({ sidecar: 'info', accounts: undefined });
  });
});

describe('a secret in a file of its own', () => {
  test('belongs to sidecar.yaml if it is the master key', () => {
    const masterKey = Buffer.alloc(32, 7).toString('base64');
    const accounts = { file: 'accounts.yaml', masterKey: { file: 'master' } };
    const running = new Running({ ...valid, 'sidecar.yaml': sidecarFile(upstream, { accounts }), master: masterKey });
    const loaded = running.load({ master: 'short', 'accounts.yaml': accountsFile({ id: 'new', name: 'New' }) });
    expect(outcomes(loaded)).toEqual({
      sidecar: [expect.stringMatching(/^accounts\.masterKey {2}expected 32 bytes/)],
      accounts: ['new'],
    });
  });

  test('belongs to accounts.yaml if it is an API key', () => {
    const entry = { ...globexEntry(), keys: [{ id: 'k', key: { file: 'secret' }, createdAt: '2026-11-01' }] };
    const running = new Running({ ...valid, 'accounts.yaml': accountsFile(entry), secret: keys.globex });
    const sidecar = sidecarFile(upstream, { log: { level: 'warn' } });
    expect(outcomes(running.load({ secret: 'short', 'sidecar.yaml': sidecar }))).toEqual({
      sidecar: 'warn',
      accounts: [expect.stringMatching(/^accounts\[0\]\.keys\[0\]\.key {2}expected/)],
    });
  });
});

test('at startup, the problems of both files form one list without repetitions', () => {
  const folder = new Folder({ 'sidecar.yaml': sidecarFile(upstream, { surplus: 1 }), 'accounts.yaml': broken });
  const loaded = loadConfig(folder.file('sidecar.yaml'), {});
  expect(loaded.ok ? [] : loaded.problems.map(({ path }) => path)).toEqual(['surplus', 'accounts[0].id']);
});

import { Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { Output } from '../../src/cli/output.ts';
import { runCommand, type Ended } from '../support/cli.ts';
import { envelopeOf } from '../support/client.ts';
import { accountsFile, Folder, sidecarFile } from '../support/folder.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { acmeTest } from '../support/sidecar.ts';
import { masterKey } from '../support/stores.ts';

const env = { SIDECAR_KEY: acmeTest.key, SIDECAR_IV: acmeTest.iv };
const hash = 'a'.repeat(64);

/** Commands that this file does not test: they write only a log to stdout, need a running sidecar or a KMS, or also write to stderr. */
const silent = [
  'serve',
  'drain',
  'status',
  'reload',
  'audit export',
  'master-key new',
  'master-key wrap',
  'master-key rewrap',
];

/**
 * For every other command, a line that succeeds on the store of `folderOf`, and its standard input. `DIR` stands for the folder. All
 * commands write JSON, except those in `texts`.
 */
const lines: Readonly<Record<string, readonly [line: string, stdin?: string]>> = {
  check: ['check --json'],
  init: ['init DIR/new'],
  demo: ['demo --free-ports'],
  version: ['version'],
  seal: ['seal', '{"a":1}'],
  open: ['open', envelopeOf(acmeTest, '{"a":1}')],
  'accounts list': ['accounts list --json'],
  'accounts show': ['accounts show acme --json'],
  'accounts add': ['accounts add new --name New --json'],
  'accounts rename': ['accounts rename acme --name New --json'],
  'accounts activate': ['accounts activate acme --json'],
  'accounts deactivate': ['accounts deactivate acme --json'],
  'accounts remove': ['accounts remove old --json'],
  'accounts import': ['accounts import DIR/lines.ndjson --json'],
  'accounts apply': ['accounts apply DIR/lines.ndjson --json'],
  'accounts export': ['accounts export'],
  'accounts copy': ['accounts copy --to DIR/other.yaml --json'],
  'accounts rekey': ['accounts rekey --new-master-key-file DIR/master-key --json'],
  'accounts migrate': ['accounts migrate --json'],
  'keys list': ['keys list acme --json'],
  'keys find': [`keys find --sha256 ${hash} --json`],
  'keys due': ['keys due --json'],
  'keys issue': ['keys issue acme --environment test --kind secret --json'],
  'keys rotate': ['keys rotate acme acme-1 --json'],
  'keys revoke': ['keys revoke acme acme-1 --json'],
  'encryption enable': ['encryption enable acme --environment live --json'],
  'encryption disable': ['encryption disable acme --environment test --json'],
  'encryption grace': ['encryption grace acme --environment test --end --json'],
  'encryption show': ['encryption show acme --environment test --json'],
  'master-key list': ['master-key list --usage --json'],
  'audit list': ['audit list --json'],
  'audit verify': ['audit verify --json'],
};
const texts: ReadonlySet<string> = new Set(['init', 'demo', 'version']);

function folderOf(accounts: object = { file: 'accounts.yaml', masterKey }): Folder {
  const account = {
    id: 'acme',
    name: 'Acme',
    keys: [{ id: 'acme-1', prefix: 'sk_test_', sha256: hash, createdAt: '2026-11-01' }],
    encryption: { test: { enabled: true, ...acmeTest, previous: { until: '2099-01-01' } } },
  };
  return new Folder({
    'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { accounts }),
    'other.yaml': sidecarFile('http://127.0.0.1:1', { accounts: { file: 'other-accounts.yaml' } }),
    'accounts.yaml': accountsFile(account, { id: 'old', name: 'Old', active: false }),
    'other-accounts.yaml': 'accounts: []\n',
    'lines.ndjson': JSON.stringify({ id: 'new', name: 'New' }),
    'master-key': masterKey,
  });
}

/** Runs the line of a command with `stream` as its standard output. */
function runInto(stream: Writable, command: string, folder = folderOf()): Promise<Ended> {
  const [line, stdin] = lines[command] ?? ['none'];
  const args = line.replaceAll('DIR', folder.path).split(' ');
  const isOnStore = args.includes('--json') || command === 'accounts export';
  const config = isOnStore ? ['--config', folder.file('sidecar.yaml')] : [];
  return runCommand([...args, ...config], { env, ...(stdin !== undefined && { stdin }), stdout: new Output(stream) });
}

/** A slow reader that accepts everything. Its buffer always has room, like that of a pipe. */
function slowReader(): { readonly stream: Writable; readonly taken: () => string } {
  let taken = '';
  const stream = new Writable({
    write: (chunk: Buffer, _encoding, done) =>
      void setTimeout(() => {
        taken += chunk.toString();
        done();
      }, 5),
  });
  return { stream, taken: () => taken };
}

/** A stream whose writes fail after a moment. */
function failing(code: string): Writable {
  const error = Object.assign(new Error(`${code}: no`), { code });
  return new Writable({ write: (_chunk, _encoding, done) => void setTimeout(() => done(error), 5) });
}

/** The names of all commands, from their help. */
async function commandsIn(group = ''): Promise<string[]> {
  const { stdout } = await runCommand([...(group === '' ? [] : [group]), '--help']);
  const [, list = ''] = stdout.split('Commands:\n');
  const names = [...list.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name = '']) => name).filter((name) => name !== 'help');
  const inner = await Promise.all(names.map(async (name) => (group === '' ? commandsIn(name) : [])));
  return names.flatMap((name, i) => (inner[i]?.length ? inner[i] : [`${group} ${name}`.trim()]));
}

const onFile = Object.keys(lines).filter((command) => command !== 'accounts migrate');

describe('each command', () => {
  test('is tested here', async () => {
    expect([...Object.keys(lines), ...silent].toSorted()).toEqual((await commandsIn()).toSorted());
  });

  // The demo is excluded, because it runs until a signal ends it.
  test.each(onFile.filter((command) => command !== 'demo'))(
    '`%s` has written all its output when it ends',
    async (command) => {
      await expectWhole(command);
    },
  );

  test.each(onFile)('`%s` fails on a full disk with the reason', async (command) => {
    await expectFailure(command);
  });

  test.each(onFile)('`%s` ends quietly if its reader has closed the stream', async (command) => {
    await expectQuiet(command);
  });
});

describeWithPostgres('on a database', () => {
  const postgres = usePostgres();

  test('`accounts migrate` passes the same three tests', async () => {
    const folder = folderOf({ postgres: { url: await postgres.createDatabase(), masterKey } });
    await expectWhole('accounts migrate', folder);
    await expectFailure('accounts migrate', folder);
    await expectQuiet('accounts migrate', folder);
  });
});

async function expectWhole(command: string, folder?: Folder): Promise<void> {
  const { stream, taken } = slowReader();
  const { code, stderr } = await runInto(stream, command, folder);
  expect({ code, stderr: withoutAudit(stderr) }).toEqual({ code: 0, stderr: '' });
  expect(stream.writableLength).toBe(0);
  if (texts.has(command)) expect(taken()).toMatch(/\S\n$/);
  // An export writes one line of JSON per account.
  else if (command === 'accounts export') for (const line of taken().trim().split('\n')) JSON.parse(line);
  else expect(JSON.parse(taken())).toBeTypeOf('object');
}

async function expectFailure(command: string, folder?: Folder): Promise<void> {
  const { code, stderr } = await runInto(failing('ENOSPC'), command, folder);
  const message = 'cannot write the output: ENOSPC: no\n';
  expect({ code, stderr: withoutAudit(stderr) }).toEqual({ code: 1, stderr: message });
}

async function expectQuiet(command: string, folder?: Folder): Promise<void> {
  const { code, stderr } = await runInto(failing('EPIPE'), command, folder);
  expect({ code, stderr: withoutAudit(stderr) }).toEqual({ code: 0, stderr: '' });
}

/** Removes the audit log lines, which commands write to stderr for each change. */
function withoutAudit(stderr: string): string {
  return stderr.replaceAll(/^\{.*"msg":"audit"\}\n/gm, '');
}

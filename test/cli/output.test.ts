import { execFile, spawn, type ChildProcessByStdio } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { Writable, type Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { Output } from '../../src/cli/output.ts';
import { runCommand } from '../support/cli.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { mayMount, Mount } from '../support/mount.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { newDatabase } from '../support/stores.ts';

const run = promisify(execFile);
const count = 1_500;
const accounts = Array.from({ length: count }, (_, i) => ({
  id: `merchant-${String(i).padStart(5, '0')}`,
  name: `Merchant ${i} ${'of long standing '.repeat(8)}`,
  active: true,
  keys: [],
}));
const env = {
  ...process.env,
  NODE: process.execPath,
  SIDECAR_KEY: 'k7Jq2vXw9RtB4mNz8LpC1sDfG5hYeU3a',
  SIDECAR_IV: 'Zx9Qw3Er7Ty1Ui5O',
};

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Starts a command without reading its output yet. */
function start(...args: readonly string[]): ChildProcessByStdio<null, Readable, Readable> {
  return spawn(process.execPath, ['src/main.ts', ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
}

/** Runs a command. Begins to read its output after half a second, and then pauses between the chunks. */
async function readSlowly(...args: readonly string[]): Promise<Ended> {
  const child = start(...args);
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  // When a process ends, Node discards unread output of a stream that has no reader.
  for (const stream of [child.stdout, child.stderr]) stream.on('readable', () => {});
  await sleep(500);
  const stderr = text(child.stderr);
  let stdout = '';
  for await (const chunk of child.stdout.setEncoding('utf8')) {
    stdout += chunk;
    await sleep(5);
  }
  return { code: await ended, stdout, stderr: await stderr };
}

/** Runs a line in a shell in which `sidecar` runs the command line. */
async function shell(line: string): Promise<{ stdout: string; stderr: string }> {
  return run('bash', ['-c', `sidecar() { "$NODE" src/main.ts "$@"; }; ${line}`], {
    env,
    timeout: 25_000,
    maxBuffer: 64 * 1_048_576,
  });
}

/** The audit event of an export, which is all that the command writes to stderr. */
const eventOnly = /^\{[^\n]*"action":"accounts_exported"[^\n]*\}\n$/;

/** Runs each command that writes a lot of data, reads it slowly, and expects complete output. */
async function expectWhole(config: string): Promise<void> {
  const listed = await readSlowly('accounts', 'list', '--json', '--config', config);
  expect({ ...listed, stdout: (JSON.parse(listed.stdout) as unknown[]).length }).toEqual({
    code: 0,
    stdout: count,
    stderr: '',
  });
  const exported = await readSlowly('accounts', 'export', '--config', config);
  expect({ ...exported, stdout: exported.stdout.split('\n').length - 1 }).toEqual({
    code: 0,
    stdout: count,
    stderr: expect.stringMatching(eventOnly) as string,
  });
  const table = await readSlowly('accounts', 'list', '--config', config);
  expect(table.stdout.match(/^merchant-/gm)).toHaveLength(count);
}

describe('a pipe that is read slowly', () => {
  test('gets all accounts from a file', async () => {
    const folder = new Folder({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1'), 'accounts.yaml': { accounts } });
    await expectWhole(folder.file('sidecar.yaml'));
  });

  describeWithPostgres('from a database', () => {
    const postgres = usePostgres();

    test('gets all accounts from the database', async () => {
      const folder = new Folder({
        'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { accounts: await newDatabase(postgres)() }),
        'lines.ndjson': accounts.map((account) => JSON.stringify(account)).join('\n'),
      });
      const config = folder.file('sidecar.yaml');
      const imported = await runCommand(['accounts', 'import', folder.file('lines.ndjson'), '--config', config]);
      expect(imported.stdout).toContain(`${count} added`);
      await expectWhole(config);
    });
  });

  test('gets all problems of a configuration on stderr', async () => {
    const routes = Array.from({ length: 99 }, () => ({ path: 'without a slash' }));
    // `keys list` ignores invalid routes, so there must also be another problem.
    const folder = new Folder({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { routes, unknown: true }) });
    const { code, stderr } = await readSlowly('keys', 'list', 'x', '--config', folder.file('sidecar.yaml'));
    expect(code).toBe(78);
    expect(stderr.split('\n').length - 1).toBe(100);
  });

  test('makes the command wait, so that it holds no more than the buffer of the stream', async () => {
    const taken: (() => void)[] = [];
    const stream = new Writable({ highWaterMark: 10, write: (_chunk, _encoding, done) => void taken.push(done) });
    const output = new Output(stream);
    let written = 0;
    const writing = (async () => {
      for (; written < 100; written += 1) await output.write('12345');
    })();
    await sleep(10);
    expect({ written, held: stream.writableLength }).toEqual({ written: 1, held: 10 });
    for (let done = 0; done < 100; done += 1) {
      taken.shift()?.();
      await sleep(0);
      expect(stream.writableLength).toBeLessThanOrEqual(10);
    }
    await writing;
    expect(written).toBe(100);
  });
});

// every-command.test.ts tests all commands with streams in this process. Here, the pipes and disks are those of the
// system.
describe('a reader that closes the pipe', () => {
  test.each([
    ['open', `echo '{"a":1}' | sidecar seal | sidecar open`],
    ['check', 'sidecar check'],
    ['demo', 'sidecar demo --free-ports'],
  ])('ends `%s` quietly', async (_, line) => {
    const { stderr } = await shell(`{ ${line}; echo "ended $?" >&2; } | true`);
    expect(stderr).toBe('ended 0\n');
  });

  test('ends a long list quietly, after the lines it has read', async () => {
    const folder = new Folder({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1'), 'accounts.yaml': { accounts } });
    for (const [command, logged] of [
      ['list', /^$/],
      ['list --json', /^$/],
      ['export', eventOnly],
    ] as const) {
      const line = `sidecar accounts ${command} --config ${folder.file('sidecar.yaml')} | head -n 2; echo "\${PIPESTATUS[0]}"`;
      const { stdout, stderr } = await shell(line);
      expect(stdout.split('\n')).toHaveLength(4);
      expect(stderr).toMatch(logged);
      expect(stdout).toMatch(/\n0\n$/);
    }
  });
});

describe('a full disk', () => {
  test.each(['--help', 'accounts list'])('makes `%s` fail with the reason', async (command) => {
    const { stdout, stderr } = await shell(`{ sidecar ${command} >/dev/full; } 2>&1; echo "$?" >&2`);
    expect(stdout).toBe('cannot write the output: ENOSPC: no space left on device, write\n');
    expect(stderr).toBe('1\n');
  });

  test.runIf(mayMount)('that has room for only part of the output makes the command fail', async () => {
    const folder = new Folder({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1'), 'accounts.yaml': { accounts } });
    const disk = new Mount({ 'list.txt': '' }, 'size=64k');
    const config = folder.file('sidecar.yaml');
    const { stdout } = await shell(
      `{ sidecar accounts export --config ${config} >${disk.file('list.txt')}; } 2>&1; echo "$?"`,
    );
    const [event = '', ...rest] = stdout.split(/(?<=\n)/);
    expect(event).toMatch(eventOnly);
    expect(rest.join('')).toBe('cannot write the output: ENOSPC: no space left on device, write\n1\n');
    expect(readFileSync(disk.file('list.txt'), 'utf8')).toMatch(/^\{"id":"merchant-00000"/);
    const one = new Mount({ 'out.txt': '' }, 'size=64k');
    one.fill(4);
    const help = await shell(`{ sidecar --help >${one.file('out.txt')}; } 2>&1; echo "$?"`);
    expect(help.stdout).toMatch(/^cannot write the output: ENOSPC.*\n1\n$/);
  });
});

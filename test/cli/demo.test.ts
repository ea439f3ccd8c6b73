import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { buildConsole } from '../console/build.ts';
import { startCommand, type Command } from '../support/command.ts';

beforeAll(() => buildConsole(), 60_000);

/** The lines that the demo prints to be pasted into a terminal. */
function printedLines(demo: Command): string[] {
  const [, block = ''] = demo.stdout.split('Paste these into another terminal.\n');
  return block.split('\n').filter((line) => line !== '' && !/^(?:\{|payment core|refused)/.test(line));
}

/** The commands among these lines. A command may continue on the next line. */
function printedCommands(demo: Command): string[] {
  const text = printedLines(demo).join('\n');
  return text.split(/(?<!\\)\n/).filter((command) => !command.startsWith('#'));
}

async function startDemo(): Promise<Command> {
  const demo = startCommand(['demo', '--free-ports']);
  await demo.until(() => demo.stdout.includes('aes-encrypt'));
  return demo;
}

/** Pastes all commands into one shell, one after another. Returns the output of each. */
function outputs(shell: string, commands: readonly string[]): string[] {
  const mark = '=== next command ===';
  const script = commands.map((command) => `${command}\necho '${mark}'\n`).join('');
  const { status, stdout, stderr } = spawnSync(shell, ['-eu'], { input: script, encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return stdout.split(`${mark}\n`).slice(0, -1);
}

describe.each(['bash', 'sh'])('the commands that the demo prints, pasted into %s,', (shell) => {
  test('do what the demo says', async () => {
    const demo = await startDemo();
    const commands = printedCommands(demo);
    expect(commands).toHaveLength(13);
    const [response, open, plain, initialize, required, forbidden, cipherTest, ...more] = outputs(
      shell,
      commands,
    ).filter((output) => output !== '');
    expect(more).toEqual([]);
    expect(response).toMatch(/^\{"data":"[0-9a-f]+"\}\n$/);
    const charge = { object: 'transaction', status: 'succeeded', amount: 1000, currency: 'EUR' };
    expect(JSON.parse(open ?? '')).toMatchObject(charge);
    expect(JSON.parse(plain ?? '')).toMatchObject(charge);
    expect(JSON.parse(initialize ?? '')).toMatchObject({ object: 'transaction', amount: 1000, currency: 'EUR' });
    expect(JSON.parse(required ?? '')).toMatchObject({ status: 400, code: 'envelope_required' });
    expect(JSON.parse(forbidden ?? '')).toMatchObject({ status: 403, code: 'key_not_permitted' });
    expect(JSON.parse(cipherTest ?? '')).toEqual({ data: expect.stringMatching(/^(?:[0-9a-f]{32})+$/) as string });

    // The demo also prints the plaintext that reached the payment core.
    await demo.until(() => demo.stdout.split('payment core │').length > 3);
    expect(demo.stdout).toContain('payment core │ 201 POST /api/s2s/charge acme {"amount":1000,"currency":"EUR"}');
    await demo.until(() => demo.stdout.split('refused ').length > 2);
    expect(demo.stdout.split('\n').filter((line) => line.includes('refused '))).toEqual([
      'refused      │ 400 POST /api/s2s/* acme envelope_required',
      'refused      │ 403 GET /api/s2s/* globex key_not_permitted',
    ]);
  });
});

describe('the demo', () => {
  test('prints lines that fit into a terminal, with comments that no shell runs', async () => {
    const lines = printedLines(await startDemo());
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
    const comments = lines.filter((line) => line.startsWith('#'));
    expect(comments.length).toBeGreaterThan(3);
    expect(comments.filter((line) => !/^# [\w ,.:]+$/.test(line))).toEqual([]);
  });

  test.each(['SIGINT', 'SIGTERM'] as const)('exits with 0 on %s', async (signal) => {
    const demo = await startDemo();
    expect(await demo.signal(signal).ended()).toEqual({ code: 0, signal: null });
    expect(demo.stderr).toBe('');
  });

  test('runs from another directory', async () => {
    const demo = startCommand(['demo', '--free-ports'], { cwd: '/' });
    await demo.until(() => demo.stdout.includes('aes-encrypt'));
    expect(printedCommands(demo)).toHaveLength(13);
  });

  test('prints the address of the console and a link with a valid token for each role', async () => {
    const demo = await startDemo();
    const url = /^The console: (http:\/\/127\.0\.0\.1:[0-9]+\/console\/)$/m.exec(demo.stdout)?.[1] ?? '';
    expect((await fetch(url)).status).toBe(200);
    const tokens = [
      ...demo.stdout.matchAll(/^ {2}(viewer|operator|admin) +http:.*\/console\/#\/sign-in\/([0-9a-f]{48})$/gm),
    ];
    expect(tokens.map(([, role]) => role)).toEqual(['viewer', 'operator', 'admin']);
    for (const [, role, token = ''] of tokens) {
      const session = await fetch(new URL('/api/v1/session', url), { headers: { Authorization: `Bearer ${token}` } });
      expect(await session.json()).toMatchObject({ role });
    }
  });

  test('follows changes made in the console, and leaves the shipped accounts unchanged', async () => {
    const shipped = readFileSync('config/accounts.yaml', 'utf8');
    const demo = await startDemo();
    const [, root] = /^The console: (.*)\/console\/$/m.exec(demo.stdout) ?? [];
    const [, token] = /^ {2}operator +\S+\/sign-in\/(\S+)$/m.exec(demo.stdout) ?? [];
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
    const body = JSON.stringify({ environment: 'test', kind: 'secret' });
    const issued = await fetch(`${root}/api/v1/accounts/globex/keys`, { method: 'POST', headers, body });
    const { key } = (await issued.json()) as { key: string };
    const [, merchants] = /(http:\/\/127\.0\.0\.1:[0-9]+)\/api\/s2s/.exec(demo.stdout) ?? [];
    const list = () => fetch(`${merchants}/api/s2s/transactions`, { headers: { Authorization: `Bearer ${key}` } });
    await expect.poll(async () => (await list()).status, { timeout: 15_000, interval: 500 }).toBe(200);
    expect(readFileSync('config/accounts.yaml', 'utf8')).toBe(shipped);
    // Reload lines without changed files are ignored, because files that were copied just before may be read twice.
    const changed = () => demo.entries('configuration reloaded').filter(({ files }) => String(files) !== '');
    await expect.poll(changed, { timeout: 15_000 }).toMatchObject([{ files: ['accounts'] }]);
  });
});

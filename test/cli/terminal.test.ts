import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { IssuedKeyView } from '../../src/accounts/views.ts';
import { runCommand } from '../support/cli.ts';
import { commandLine, lines, withAcme } from '../support/command-line.ts';

describe('in a terminal of 80 columns', () => {
  test.each([
    ['of accented letters', 'Łódź '.repeat(30), 1],
    ['of one word', 'x'.repeat(200), 1],
    ['of letters that take two cells', '株式会社'.repeat(50), 2],
  ])('accounts with names %s fit', async (_, name, cells) => {
    const { run } = await withAcme({ columns: 80 });
    const widest = (text: string): number =>
      Math.max(...lines(text).map((line) => line.length + (cells - 1) * (line.match(/[株式会社]/g) ?? []).length));
    await run('accounts add globex --name', name);
    const { stdout: listed } = await run('accounts list');
    expect(listed).toContain('…');
    expect(widest(listed)).toBeLessThanOrEqual(80);
    expect(widest(listed)).toBeGreaterThan(78);
    const { stdout: shown } = await run('accounts show globex');
    expect(widest(shown)).toBeLessThanOrEqual(80);
    expect(shown.replaceAll(/\s/g, '')).toContain(name.replaceAll(' ', ''));
    await run(`accounts add ${'y'.repeat(64)} --name`, name);
    expect(widest((await run('accounts list')).stdout)).toBeLessThanOrEqual(80);
  });

  test('accounts with ids that leave no room are listed as blocks', async () => {
    const { run } = commandLine(undefined, { columns: 80 });
    const id = 'x'.repeat(64);
    await run(`accounts add ${id} --name X`);
    expect((await run('accounts list')).stdout).toBe(
      `ID        ${id}\nNAME      X\nACTIVE    yes\nKEYS      0\nENCRYPTS  -\n`,
    );
  });

  test('keys fit with all their columns', async () => {
    const { run, json } = await withAcme({ columns: 80 });
    const { id } = await json<IssuedKeyView>('keys issue acme --environment live --kind public --expires 1s');
    await run(`keys revoke acme ${id}`);
    const issued = await run('keys issue acme --environment live --kind secret --expires 3650d');
    for (const { stdout } of [issued, await run('keys list acme'), await run('accounts show acme')]) {
      for (const line of lines(stdout)) expect(line.length).toBeLessThanOrEqual(80);
    }
  });

  test('an error is wrapped between words, and is one line in a pipe', async () => {
    const { folder, run } = commandLine();
    const unknown = ['accounts', 'show', 'x'.repeat(40), '--config', folder.file('sidecar.yaml')];
    const { stderr } = await runCommand(unknown, { columns: 80 });
    expect(stderr).toBe(`accounts show: account ${'x'.repeat(40)} does not exist\n  (account_unknown)\n`);
    expect((await runCommand(unknown)).stderr).toBe(stderr.replace('\n ', ''));
    const usage = await runCommand(['keys', 'issue', 'a', '--expires', '1y'], { columns: 80 });
    expect(usage.stderr).toBe(
      "error: option '--expires <duration>' argument '1y' is invalid. Expected a\n" +
        '  duration such as 250ms, 30s, 5m, 12h or 7d, from 1s to 3650d.\n',
    );
    folder.write({ 'accounts.yaml': 'accounts: [{ id: a }]\n' });
    for (const line of lines((await run('accounts list')).stderr)) expect(line.length).toBeGreaterThan(80);
    for (const command of [['accounts'], ['accounts', 'import', '/nowhere'], ['keys', 'issue']]) {
      for (const line of lines((await runCommand(command, { columns: 80 })).stderr)) {
        expect(line.length).toBeLessThanOrEqual(80);
      }
    }
    expect((await runCommand(['accounts'], { columns: 80 })).stderr).toBe((await runCommand(['accounts'])).stderr);
  });
});

test.each(['audit list', 'accounts list'])(
  '%s truncates nothing in a pipe, and no more than it must in a terminal',
  async (command) => {
    const { folder, run } = commandLine();
    const name = 'long '.repeat(30).trim();
    await run('accounts add acme --name', name);
    const piped = (await run(command)).stdout;
    expect(piped).toContain(name);
    expect(lines(piped)).toHaveLength(2);
    for (const columns of [90, 120, 150]) {
      const config = ['--config', folder.file('sidecar.yaml')];
      const { stdout } = await runCommand([...command.split(' '), ...config], { columns });
      expect(Math.max(...lines(stdout).map((line) => line.length))).toBe(columns);
      expect(stdout).toContain('…');
    }
  },
);

test('in a narrow terminal a list becomes blocks of short lines', async () => {
  const { run } = commandLine(undefined, { columns: 20 });
  await run('accounts add acme --name', '株式会社'.repeat(5));
  expect((await run('accounts list')).stdout).toContain('NAME      株式会社株\n          式会社株式\n');
  expect((await run('accounts list')).stdout).toContain('ID        acme\n');
});

test('output fits the width of a real terminal', async () => {
  const { folder, run } = commandLine();
  const name = 'long '.repeat(30).trim();
  await run('accounts add acme --name', name);
  const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
  const command = `stty cols 97; "${process.execPath}" "${main}" audit list --config "${folder.file('sidecar.yaml')}"`;
  const { stdout } = spawnSync('script', ['-qec', command, '/dev/null'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const widths = stdout.split('\r\n').map((line) => line.length);
  expect(Math.max(...widths)).toBe(97);
  expect(stdout).toContain('…');
});

import { describe, expect, test } from 'vitest';
import { runCommand } from '../support/cli.ts';
import { startCommand } from '../support/command.ts';

/** The names of the commands in a help text. */
function commandsIn(help: string): string[] {
  const [, commands = ''] = help.split('Commands:\n');
  return [...commands.matchAll(/^ {2}(\S+)/gm)].map(([, name = '']) => name);
}

describe('the command line', () => {
  test.each(['--help', '-h'])('prints its commands with %s', async (option) => {
    const { code, stdout, stderr } = await runCommand([option]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^Usage: sidecar /);
    expect(commandsIn(stdout)).toEqual(
      expect.arrayContaining(['serve', 'check', 'demo', 'drain', 'accounts', 'keys', 'encryption', 'seal', 'open']),
    );
  });

  test('prints the help of each command', async () => {
    const commands = commandsIn((await runCommand(['--help'])).stdout).filter((name) => name !== 'help');
    expect(commands.length).toBeGreaterThan(5);
    for (const command of commands) {
      const { code, stdout, stderr } = await runCommand([command, '--help']);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(stdout).toMatch(new RegExp(`^Usage: sidecar ${command} `));
    }
  });

  test.each(['--version', '-V'])('prints its version with %s', async (option) => {
    expect(await runCommand([option])).toEqual({ code: 0, stdout: '0.0.0\n', stderr: '' });
  });

  test.each([
    ['an unknown command', ['srve'], "unknown command 'srve'"],
    ['an unknown option', ['serve', '--port', '1'], "unknown option '--port'"],
    ['an option without its value', ['check', '--config'], "option '--config <file>' argument missing"],
    ['a value that an option does not have', ['seal', '--encoding', 'utf8'], "argument 'utf8' is invalid"],
    ['too many arguments', ['check', 'sidecar.yaml'], 'too many arguments'],
  ])('refuses %s as a usage error', async (_, args, message) => {
    const { code, stdout, stderr } = await runCommand(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^error: /);
    expect(stderr).toContain(message);
  });

  test('prints its help as a usage error if no command is given', async () => {
    const { code, stdout, stderr } = await runCommand([]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(commandsIn(stderr)).toContain('serve');
  });
});

describe('the process', () => {
  test('exits with the code of its command', async () => {
    expect(await startCommand(['--help']).ended()).toEqual({ code: 0, signal: null });
    expect(await startCommand(['srve']).ended()).toEqual({ code: 2, signal: null });
    expect(await startCommand(['check', '--config', '/nowhere']).ended()).toEqual({ code: 78, signal: null });
  });
});

import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { startCommand, type Command } from '../support/command.ts';

/** The lines that a demo has printed to be pasted, as they are. */
function printedLines(demo: Command): string[] {
  const [, block = ''] = demo.stdout.split('Paste these into another terminal.\n');
  return block.split('\n').filter((line) => line !== '' && !/^(?:\{|payment core)/.test(line));
}

/** The commands among them, some of which go on in the next line. */
function printedCommands(demo: Command): string[] {
  const text = printedLines(demo).join('\n');
  return text.split(/(?<!\\)\n/).filter((command) => !command.startsWith('#'));
}

async function startDemo(): Promise<Command> {
  const demo = startCommand(['demo', '--free-ports']);
  await demo.until(() => demo.stdout.includes('aes-encrypt'));
  return demo;
}

/** What each command puts out when all are pasted one after the other into one shell. */
function outputs(shell: string, commands: readonly string[]): string[] {
  const mark = '=== next command ===';
  const script = commands.map((command) => `${command}\necho '${mark}'\n`).join('');
  const { status, stdout, stderr } = spawnSync(shell, ['-eu'], { input: script, encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return stdout.split(`${mark}\n`).slice(0, -1);
}

describe.each(['bash', 'sh'])('every command that the demo prints, pasted into %s', (shell) => {
  test('does what the demo says of it', async () => {
    const demo = await startDemo();
    const commands = printedCommands(demo);
    expect(commands).toHaveLength(13);
    const [response, open, plain, initialize, required, forbidden, cipherTest, ...more] = outputs(
      shell,
      commands,
    ).filter((output) => output !== '');
    expect(more).toEqual([]);
    expect(response).toMatch(/^\{"data":"[0-9a-f]+"\}\n$/);
    const charge = { object: 'transaction', status: 'succeeded', amount: 1000, currency: 'USD' };
    expect(JSON.parse(open ?? '')).toMatchObject(charge);
    expect(JSON.parse(plain ?? '')).toMatchObject(charge);
    expect(JSON.parse(initialize ?? '')).toMatchObject({ object: 'transaction', amount: 1000, currency: 'USD' });
    expect(JSON.parse(required ?? '')).toMatchObject({ status: 400, code: 'envelope_required' });
    expect(JSON.parse(forbidden ?? '')).toMatchObject({ status: 403, code: 'key_not_permitted' });
    expect(JSON.parse(cipherTest ?? '')).toEqual({ data: expect.stringMatching(/^(?:[0-9a-f]{32})+$/) as string });

    // What reached the payment core is shown, too, in plain.
    await demo.until(() => demo.stdout.split('payment core │').length > 3);
    expect(demo.stdout).toContain('payment core │ 201 POST /api/s2s/charge acme {"amount":1000,"currency":"USD"}');
  });
});

describe('the demo', () => {
  test('prints lines that fit into a terminal, with comments that no shell takes for commands', async () => {
    const lines = printedLines(await startDemo());
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
    const comments = lines.filter((line) => line.startsWith('#'));
    expect(comments.length).toBeGreaterThan(3);
    expect(comments.filter((line) => !/^# [\w ,.:]+$/.test(line))).toEqual([]);
  });

  test.each(['SIGINT', 'SIGTERM'] as const)('ends with 0 by %s', async (signal) => {
    const demo = await startDemo();
    expect(await demo.signal(signal).ended()).toEqual({ code: 0, signal: null });
    expect(demo.stderr).toBe('');
  });

  test('works from another directory', async () => {
    const demo = startCommand(['demo', '--free-ports'], { cwd: '/' });
    await demo.until(() => demo.stdout.includes('aes-encrypt'));
    expect(printedCommands(demo)).toHaveLength(13);
  });
});

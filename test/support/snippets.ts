import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'vitest';

/** The code blocks of a page with this info string. If it contains `run`, the blocks are for the reader to run. */
export function blocks(page: string, language: string): string[] {
  return blocksIn(readFileSync(page, 'utf8'), language);
}

/** Like `blocks`, but for a string. The indentation of blocks in a list is removed. */
export function blocksIn(text: string, language: string): string[] {
  const fenced = new RegExp(`^( *)\`\`\`${language}\\n([\\s\\S]*?)^ *\`\`\`$`, 'gm');
  return [...text.matchAll(fenced)].map(([, indent = '', code = '']) =>
    code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  );
}

/** Runs a snippet as a reader would, with `sidecar` on the `PATH`, and returns its output. */
export async function runSnippet(code: string, language: 'sh' | 'js', env: Record<string, string>): Promise<string> {
  const [command, args]: [string, string[]] =
    language === 'sh' ? ['sh', ['-eu']] : [process.execPath, ['--input-type=module', '-']];
  const child = spawn(command, args, {
    env: { ...process.env, PATH: `${resolve('bin')}:${process.env['PATH'] ?? ''}`, ...env },
    stdio: 'pipe',
  });
  const exit = new Promise((resolve) => void child.once('close', resolve));
  child.stdin.end(code);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  expect({ exit: await exit, stderr }).toEqual({ exit: 0, stderr: '' });
  return stdout;
}

import { spawn } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Stage } from '../../kits/end-to-end/scenarios.ts';
import { environmentIn, states, type State } from '../../kits/end-to-end/sidecar.ts';

/** The snippets of merchants' pages that the reader runs. */
const snippets = globSync('docs/merchants*.md').flatMap((page) =>
  [...readFileSync(page, 'utf8').matchAll(/^```(sh|js) run\n([\s\S]*?)^```$/gm)].map(
    ([, language = '', code = '']) => ({ page, language, code }),
  ),
);

/** Runs a snippet as a reader would, with `sidecar` on the `PATH`, and returns its output. */
async function run(language: string, code: string, env: Readonly<Record<string, string>>): Promise<string> {
  const [command, args]: [string, string[]] =
    language === 'sh' ? ['sh', ['-eu']] : [process.execPath, ['--input-type=module', '-']];
  const path = `${resolve('bin')}:${process.env['PATH'] ?? ''}`;
  const child = spawn(command, args, { env: { ...process.env, PATH: path, ...env }, stdio: 'pipe' });
  const exit = new Promise((done) => void child.once('close', done));
  child.stdin.end(code);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  expect({ exit: await exit, stderr }).toEqual({ exit: 0, stderr: '' });
  return stdout;
}

describe("merchants' snippets work in each state of a change of credentials", () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.build();
  });
  afterAll(() => stage.close());

  test('there are some that pay, and some that list payments', () => {
    const uses = (path: string): unknown[] => snippets.filter(({ code }) => code.includes(path));
    expect(uses('/api/s2s/charge')).toHaveLength(2);
    expect(uses('/api/s2s/transactions')).toHaveLength(1);
  });

  // Each runs a dozen programs.
  test.each(Object.keys(states) as State[])('%s', { timeout: 120_000 }, async (state) => {
    for (const { language, code } of snippets) {
      const printed = await run(language, code, { ...environmentIn(state), BASE: stage.url });
      expect(printed).toMatch(code.includes('/charge') ? /txn_\d/ : /data|amount/);
      // There was a response, and no refusal.
      expect(printed).not.toMatch(/"code"|request_id|error/);
    }
  });
});

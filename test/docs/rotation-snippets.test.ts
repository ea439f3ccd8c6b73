import { globSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Stage } from '../../kits/end-to-end/scenarios.ts';
import { blocks, runSnippet } from '../support/snippets.ts';
import { environmentIn, states, type State } from '../../kits/end-to-end/sidecar.ts';

/** The snippets on merchants' pages that readers can run. */
const snippets = globSync('docs/merchants*.md').flatMap((page) =>
  (['sh', 'js'] as const).flatMap((language) => blocks(page, `${language} run`).map((code) => ({ language, code }))),
);

describe("merchants' snippets work in each state of a change to new credentials", () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.build();
  });
  afterAll(() => stage.close());

  test('some of them pay, and some list payments', () => {
    const uses = (path: string): unknown[] => snippets.filter(({ code }) => code.includes(path));
    expect(uses('/api/s2s/charge')).toHaveLength(2);
    expect(uses('/api/s2s/transactions')).toHaveLength(1);
  });

  // Each test runs a dozen programs.
  test.each(Object.keys(states) as State[])('%s', { timeout: 120_000 }, async (state) => {
    for (const { language, code } of snippets) {
      const printed = await runSnippet(code, language, { ...environmentIn(state), BASE: stage.url });
      expect(printed).toMatch(code.includes('/charge') ? /txn_\d/ : /data|amount/);
      // The snippet received a response, and it was not a refusal.
      expect(printed).not.toMatch(/"code"|request_id|error/);
    }
  });
});

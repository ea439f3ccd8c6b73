import axe from 'axe-core';
import type { Page } from 'playwright-core';

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary: string }[];
}

/**
 * The findings of axe-core on a page, with their places.
 *
 * @param rule undefined: every rule
 */
export async function violationsOf(page: Page, rule?: 'color-contrast'): Promise<string[]> {
  // Through the debugger's protocol, to which the policy of the page does not apply; once in each document.
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe.source);
  const options = { resultTypes: ['violations'], ...(rule !== undefined && { runOnly: [rule] }) };
  const found = (await page.evaluate(`axe.run(document, ${JSON.stringify(options)})`)) as {
    readonly violations: readonly Violation[];
  };
  return found.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')}: ${failureSummary}`),
  );
}

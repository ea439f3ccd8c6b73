import axe from 'axe-core';
import type { Page } from 'playwright-core';

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary: string }[];
}

/**
 * The findings of axe-core on a page, with their places.
 *
 * @param rule the only rule to check; by default, every rule
 */
export async function violationsOf(page: Page, rule?: 'color-contrast'): Promise<string[]> {
  // Load axe through the debugger's protocol, to which the page's policy does not apply. Each document needs it only once.
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe.source);
  const options = { resultTypes: ['violations'], ...(rule !== undefined && { runOnly: [rule] }) };
  const found = (await page.evaluate(`axe.run(document, ${JSON.stringify(options)})`)) as {
    readonly violations: readonly Violation[];
  };
  return found.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')}: ${failureSummary}`),
  );
}

import axe from 'axe-core';
import type { Page } from 'playwright-core';

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary: string }[];
}

/** What axe-core finds on a page that is serious or critical, with the places. */
export async function seriousViolations(page: Page): Promise<string[]> {
  // By the debugger's protocol, which the page's policy does not concern.
  const found = (await page.evaluate(`(() => { ${axe.source}; return axe.run(document); })()`)) as {
    readonly violations: readonly Violation[];
  };
  return found.violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')}: ${failureSummary}`),
    );
}

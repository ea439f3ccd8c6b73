import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, inject } from 'vitest';
import { describeUnless } from '../support/describe-unless.ts';

/** `describe` for tests that need Chromium. Without it, they are skipped and the reason is shown. */
export function describeWithChromium(name: string, tests: () => void): void {
  describeUnless(inject('chromium') === null ? 'Chromium not found' : undefined, name, tests);
}

/** A browser for the tests of one file. */
export interface TestBrowser {
  /** Opens a window with its own cookies, or with those of another window. It is closed after the test. */
  open(url: string, options?: OpenOptions): Promise<Page>;
  /** Allows a message on the console of the page. Every other message fails the test. */
  expectComplaint(text: RegExp): void;
}

interface OpenOptions {
  readonly beside?: Page;
  readonly width?: number;
  readonly height?: number;
}

/** Uses the browser that all files share. An error on the console of a page, such as a violated policy, fails the test. */
export function useBrowser(): TestBrowser {
  let browser: Browser | undefined;
  const contexts = new Set<BrowserContext>();
  let complaints: string[] = [];
  let expected: RegExp[] = [];

  beforeAll(async () => {
    const endpoint = inject('chromium');
    if (endpoint !== null) browser = await chromium.connect(endpoint);
  });
  afterAll(async () => browser?.close());
  afterEach(async () => {
    for (const context of contexts) await context.close();
    contexts.clear();
    const unexpected = complaints.filter((text) => !expected.some((each) => each.test(text)));
    complaints = [];
    expected = [];
    expect(unexpected).toEqual([]);
  });

  const contextFor = async ({ beside, width = 1_280, height = 800 }: OpenOptions) => {
    if (browser === undefined) throw new Error('the browser has not started');
    if (beside !== undefined) return beside.context();
    const context = await browser.newContext({
      viewport: { width, height },
      colorScheme: 'light',
      ignoreHTTPSErrors: true,
      reducedMotion: 'reduce',
    });
    context.setDefaultTimeout(15_000);
    contexts.add(context);
    return context;
  };

  return {
    open: async (url, options = {}) => {
      const page = await (await contextFor(options)).newPage();
      page.on('console', (message) => {
        if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
      });
      page.on('pageerror', (error) => complaints.push(`uncaught: ${error.message}`));
      await page.goto(url);
      return page;
    },
    expectComplaint: (text) => {
      expected.push(text);
    },
  };
}

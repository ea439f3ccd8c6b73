import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { describeWhere } from '../support/describe-where.ts';
import { buildConsole } from './build.ts';

/** Debian's Chromium; undefined if there is none. */
const program = (process.env['PATH'] ?? '')
  .split(delimiter)
  .map((folder) => join(folder, 'chromium'))
  .find((file) => isProgram(file));

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** `describe`, for tests that need Chromium. Without it they are skipped, and say so. */
export function describeWithChromium(name: string, tests: () => void): void {
  describeWhere(program === undefined ? 'Chromium not found' : undefined, name, tests);
}

/** A browser for the tests of one file. */
export interface TestBrowser {
  /** Opens a window with cookies of its own, or with those of another window. It is closed after the test. */
  open(url: string, options?: OpenOptions): Promise<Page>;
  /** Lets the page complain of something. Every other complaint fails the test. */
  expectComplaint(text: RegExp): void;
}

interface OpenOptions {
  readonly beside?: Page;
  readonly width?: number;
  readonly height?: number;
  readonly colorScheme?: 'light' | 'dark';
}

/** Starts a browser for this file's tests. An error on a page's console, a violated policy among them, fails the test. */
export function useBrowser(): TestBrowser {
  let browser: Browser | undefined;
  const contexts = new Set<BrowserContext>();
  let complaints: string[] = [];
  let expected: RegExp[] = [];

  beforeAll(async () => {
    if (program === undefined) return;
    await buildConsole();
    const flags = ['disable-gpu', 'disable-quic', 'no-first-run', 'disable-background-networking', 'disable-sync'];
    browser = await chromium.launch({
      executablePath: program,
      chromiumSandbox: false,
      args: [...flags, 'disable-component-update', 'force-color-profile=srgb'].map((name) => `--${name}`),
      timeout: 60_000,
    });
  }, 90_000);
  afterAll(async () => browser?.close());
  afterEach(async () => {
    for (const context of contexts) await context.close();
    contexts.clear();
    const unexpected = complaints.filter((text) => !expected.some((each) => each.test(text)));
    complaints = [];
    expected = [];
    expect(unexpected).toEqual([]);
  });

  const contextFor = async ({ beside, width = 1_280, height = 800, colorScheme = 'light' }: OpenOptions) => {
    if (browser === undefined) throw new Error('the browser has not started');
    if (beside !== undefined) return beside.context();
    const viewport = { width, height };
    const context = await browser.newContext({
      viewport,
      colorScheme,
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

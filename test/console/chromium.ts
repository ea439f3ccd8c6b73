import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium } from 'playwright-core';
import type { TestProject } from 'vitest/node';
import { buildConsole } from './build.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The address of the tests' browser; null if there is no Chromium. */
    readonly chromium: string | null;
  }
}

/** Builds the page and starts one browser for the tests of all files. */
export default async function startChromium(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const program = findChromium();
  if (program === undefined) {
    project.provide('chromium', null);
    return undefined;
  }
  await buildConsole();
  const flags = ['disable-gpu', 'disable-quic', 'no-first-run', 'disable-background-networking', 'disable-sync'];
  const server = await chromium.launchServer({
    executablePath: program,
    chromiumSandbox: false,
    host: '127.0.0.1',
    args: [...flags, 'disable-component-update', 'force-color-profile=srgb'].map((name) => `--${name}`),
    timeout: 60_000,
  });
  project.provide('chromium', server.wsEndpoint());
  return () => server.close();
}

/** The path of Debian's Chromium; undefined if it is not installed. */
function findChromium(): string | undefined {
  return (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((folder) => join(folder, 'chromium'))
    .find((file) => isProgram(file));
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

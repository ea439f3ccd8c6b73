import { createServer } from 'node:net';
import type { Page } from 'playwright-core';
import { startServe, type Serving } from '../support/command.ts';
import { Folder, sidecarFile, type Contents } from '../support/folder.ts';

/** An operator of each role, and a merchant with a token for its own account. */
export const operators = {
  viewer: { name: 'vera', role: 'viewer', token: 'viewer-token-of-the-tests-0123456789' },
  operator: { name: 'otto', role: 'operator', token: 'operator-token-of-the-tests-0123456789' },
  admin: { name: 'ada', role: 'admin', token: 'admin-token-of-the-tests-0123456789' },
  merchant: {
    name: 'acme-dashboard',
    role: 'operator',
    account: 'acme',
    token: 'merchant-token-of-the-tests-0123456789',
  },
} as const;
export type Operator = keyof typeof operators;

/** A sidecar in a process of its own, with a console. */
export interface ConsoleSidecar {
  readonly serving: Serving;
  readonly folder: Folder;
  /** Of the console. */
  readonly url: string;
  /** Writes the configuration anew; the sidecar follows it. */
  readonly configure: (more: Contents) => void;
}

/** Starts a sidecar on the file store, or on another if `more` says so. */
export async function startConsole(
  upstream: string,
  { accounts = { accounts: [] }, more = {} }: { accounts?: unknown; more?: Contents } = {},
): Promise<ConsoleSidecar> {
  const port = await freePort();
  const file = (members: Contents): Contents =>
    sidecarFile(upstream, {
      operators: { host: '127.0.0.1', port, tokens: Object.values(operators) },
      routes: [
        { path: '/api/v1/transactions/initialize', methods: ['POST'], keys: ['public', 'secret'] },
        { path: '/api/s2s/*', envelope: true },
      ],
      ...members,
    });
  const folder = new Folder({ 'sidecar.yaml': file(more), 'accounts.yaml': accounts });
  const serving = await startServe(folder.file('sidecar.yaml'));
  return {
    serving,
    folder,
    url: `http://127.0.0.1:${port}/console/`,
    configure: (members) => folder.write({ 'sidecar.yaml': file({ ...more, ...members }) }),
  };
}

/** A port that is free now. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => void server.close(resolve));
  return port;
}

/** Signs in on the page. */
export async function signIn(page: Page, operator: Operator): Promise<void> {
  await page.getByLabel('Token').fill(operators[operator].token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
}

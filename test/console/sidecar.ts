import type { Page } from 'playwright-core';
import { startServe, type Serving } from '../support/command.ts';
import { fileWide } from '../support/file-wide.ts';
import { Folder, sidecarFile, type Contents } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import { startUpstream, type Respond, type TestUpstream } from '../support/upstream.ts';
import { Merchant } from './merchant.ts';

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
  core: { name: 'core', role: 'core', token: 'core-token-of-the-tests-0123456789' },
} as const;
export type Operator = keyof typeof operators;

/** A sidecar in a process of its own, with a console. */
export interface ConsoleSidecar {
  readonly serving: Serving;
  readonly folder: Folder;
  readonly upstream: TestUpstream;
  /** Sends a request to the listener for merchants. */
  readonly merchant: Merchant;
  /** The URL of the console. */
  readonly url: string;
  /** Writes a new configuration and waits until the sidecar applies it. */
  readonly configure: (more: Contents) => Promise<void>;
}

/** The initial accounts, and other members of the configuration. */
interface Setup {
  readonly accounts?: unknown;
  readonly more?: Contents;
}

/** One sidecar for all tests of a file, with its accounts in a file unless `setup` says otherwise. */
export function useConsole(
  setup: (upstream: string) => Setup | Promise<Setup>,
  { nodeOptions = [], respond }: { readonly nodeOptions?: readonly string[]; readonly respond?: Respond } = {},
): () => ConsoleSidecar {
  return fileWide(async (defer) => {
    const upstream = await startUpstream(respond, defer);
    const { accounts = { accounts: [] }, more = {} } = await setup(upstream.origin);
    const port = await freePort();
    const file = (members: Contents): Contents =>
      sidecarFile(upstream.origin, {
        operators: { host: '127.0.0.1', port, tokens: Object.values(operators) },
        routes: [
          { path: '/api/v1/transactions/initialize', methods: ['POST'], keys: ['public', 'secret'] },
          { path: '/api/s2s/*', envelope: true },
        ],
        ...members,
      });
    const folder = new Folder({ 'sidecar.yaml': file(more), 'accounts.yaml': accounts }, defer);
    const serving = await startServe(folder.file('sidecar.yaml'), { defer, nodeOptions });
    const reloads = (): number =>
      serving.entries('configuration reloaded').filter(({ files }) => (files as string[]).includes('sidecar')).length;
    return {
      serving,
      folder,
      upstream,
      merchant: new Merchant(serving.port),
      url: `http://127.0.0.1:${port}/console/`,
      configure: async (members) => {
        const before = reloads();
        folder.write({ 'sidecar.yaml': file({ ...more, ...members }) });
        await serving.until(() => reloads() > before);
      },
    };
  });
}

/** Signs in on the page. */
export async function signIn(page: Page, operator: Operator): Promise<void> {
  await page.getByLabel('Token').fill(operators[operator].token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
}

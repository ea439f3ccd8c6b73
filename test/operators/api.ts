import { createSecretKey } from 'node:crypto';
import { readFileSync, watch } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished } from 'vitest';
import { readAccounts } from '../../src/accounts/file/read.ts';
import { createMasterKey } from '../../src/accounts/master-key.ts';
import { unwrapAccount } from '../../src/accounts/unwrap-account.ts';
import { Vault } from '../../src/accounts/vault.ts';
import type { Config } from '../../src/config/config.ts';
import { Files } from '../../src/yaml/files.ts';
import { YamlFile } from '../../src/yaml/yaml-file.ts';
import type { Defer } from '../support/file-wide.ts';
import { openConnection, type Connection } from '../support/connection.ts';
import { Folder } from '../support/folder.ts';
import { request } from '../support/refused.ts';
import { admin, configOf, operatorsOf, startSidecar, type TestSidecar } from '../support/sidecar.ts';

export const token = 'operators-token-of-a-test-0123456789';

/** The token's entry in the configuration. */
export const dashboard = admin('dashboard', token);

/** A response of the operators' API. */
export interface ApiResponse {
  readonly status: number;
  readonly headers: Headers;
  /** The body, parsed as JSON. */
  readonly body: Readonly<Record<string, unknown>>;
}

/** The parts of a request other than the method and the path. */
export interface Asked {
  /** Sent as JSON; a string is sent unchanged. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** By default, the valid token; null sends no token. */
  readonly token?: string | null;
}

/** The operators' API of a sidecar in this process, on an accounts file without accounts. */
export interface TestApi {
  readonly sidecar: TestSidecar;
  readonly config: Config;
  readonly folder: Folder;
  readonly url: string;
  /** Sends the request that a line such as `POST /accounts` describes, relative to the root of the API. */
  readonly ask: (line: string, asked?: Asked) => Promise<ApiResponse>;
  /** Returns the content of the accounts file. */
  readonly file: () => string;
}

/** @param follows whether the sidecar applies changes to the accounts file, as `serve` does */
export async function startApi(
  more: Partial<Config> = {},
  clock?: () => number,
  follows: 'follows' | 'is deaf' = 'follows',
  defer: Defer = onTestFinished,
): Promise<TestApi> {
  const folder = new Folder({ 'accounts.yaml': 'accounts: []\n' }, defer);
  const config = configOf('http://127.0.0.1:1', {
    operators: operatorsOf([dashboard]),
    store: { type: 'file', file: folder.file('accounts.yaml'), masterKeys: [], auditKeys: [] },
    ...more,
  });
  const sidecar = await startSidecar(config, clock, defer);
  if (follows === 'follows') follow(sidecar, config, folder, defer);
  const url = `http://127.0.0.1:${sidecar.app.addresses.operators?.port}/api/v1`;
  return {
    sidecar,
    config,
    folder,
    url,
    ask: (line, asked) => ask(url, line, asked),
    file: () => readFileSync(join(folder.path, 'accounts.yaml'), 'utf8'),
  };
}

/** Settings for a database that has the tables. Operations on it take milliseconds, whereas those on a file start a thread. */
export function storeAt(url: string): Config['store'] {
  return {
    type: 'postgres',
    url,
    masterKeys: [createMasterKey(createSecretKey(Buffer.alloc(32, 1)))],
    auditKeys: [],
    cache: 100,
    staleFor: 60_000,
  };
}

/** Applies changes to the accounts file without the delay of `serve`, and on this thread, because the files of tests are small. */
function follow({ app }: TestSidecar, config: Config, folder: Folder, defer: Defer): void {
  const vault = new Vault(config.store.masterKeys);
  const watcher = watch(folder.path, (_event, name) => {
    if (name !== 'accounts.yaml') return;
    const file = new YamlFile(folder.file(name), new Files());
    const { accounts } = readAccounts(file, {}, vault);
    if (file.problems.length > 0) return;
    const value = accounts.map((account) => unwrapAccount(account, vault));
    // Without a valid sidecar.yaml, the current settings stay in force.
    const sidecar = { ok: false, problems: [] } as const;
    app.reload({ sidecar, accounts: { ok: true, value, warnings: [] }, files: new Map(), digests: {} });
  });
  defer(() => watcher.close());
}

export async function ask(url: string, line: string, { body, headers, token: sent }: Asked = {}): Promise<ApiResponse> {
  const [method = '', path = ''] = line.split(' ');
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      ...(sent !== null && { authorization: `Bearer ${sent ?? token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: JSON.parse(text) as ApiResponse['body'] };
}

/** Sends a request as `ask` does, but without the last byte of its body. Returns the client. */
export async function beginRequest(url: string, line: string, body: string, sent = token): Promise<Connection> {
  const { port, pathname } = new URL(url);
  const client = await openConnection(Number(port));
  const head = request(
    `${line.replace(' ', ` ${pathname}`)} HTTP/1.1`,
    'Host: localhost',
    `Authorization: Bearer ${sent}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
  );
  client.send(head + body.slice(0, -1));
  await delay(100);
  return client;
}

/** Expects a problem document with this code, and returns its detail. */
export function expectProblem(response: ApiResponse, status: number, code: string): string {
  expect(response.headers.get('content-type')).toBe('application/problem+json');
  const { title, detail, ...rest } = response.body;
  expect(rest).toMatchObject({
    type: 'about:blank',
    status,
    code,
    request_id: response.headers.get('x-request-id'),
  });
  expect(response.status).toBe(status);
  expect(title).toEqual(expect.any(String));
  return String(detail);
}

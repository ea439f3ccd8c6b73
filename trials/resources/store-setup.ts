import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { Folder, sidecarFile, type Contents } from '../../test/support/folder.ts';
import type { TestPostgres } from '../../test/support/postgres.ts';

import type { Outcome, KeepAliveClient } from '../load/client.ts';
import type { Defer } from '../load/stage.ts';
import { operatorsToken } from './operator.ts';

const run = promisify(execFile);

/** The two master keys of a store. The current one comes first. */
const masterKeys = [1, 2].map((byte) => Buffer.alloc(32, byte).toString('base64'));

/** Where a store keeps its accounts: in PostgreSQL, or in a file if this is undefined. */
export type Place = TestPostgres | undefined;

/** Creates a folder with the configuration of a sidecar, which has an empty store and one operator. */
export async function emptyStore(place: Place, defer: Defer): Promise<{ folder: Folder; url: string | undefined }> {
  const url = await place?.createDatabase();
  const masterKey = { file: 'master-keys' };
  const sidecar = sidecarFile('http://127.0.0.1:1', {
    operators: { host: '127.0.0.1', port: 0, token: operatorsToken },
    accounts: url === undefined ? { file: 'accounts.yaml', masterKey } : { postgres: { url, masterKey } },
  });
  const contents: Contents = {
    'sidecar.yaml': sidecar, // One account per line, as people and commands write them.
    'accounts.yaml': 'accounts: []\n',
  };
  const folder = new Folder(contents, defer);
  writeFileSync(folder.file('master-keys'), masterKeys.join('\n'), { mode: 0o600 });
  for (const [i, key] of masterKeys.entries()) writeFileSync(folder.file(`master-key-${i}`), key, { mode: 0o600 });
  return { folder, url };
}

/** Runs a command of the project with the configuration in a folder. */
export async function runOn(folder: Folder, program: string, ...args: readonly string[]): Promise<void> {
  await run(process.execPath, [program, ...args, '--config', folder.file('sidecar.yaml')], { maxBuffer: 2 ** 26 });
}

/** The entry of a key that was created long ago. */
export function keyEntry(id: string, more: Contents = {}): Contents {
  const sha256 = createHash('sha256').update(id).digest('hex');
  return { id, prefix: 'sk_test_', sha256, createdAt: '2025-01-01', ...more };
}

/** Sends a request to the operators' API. */
export function askApi(client: KeepAliveClient, request: string, body?: string): Promise<Outcome> {
  const [method = '', path = ''] = request.split(' ');
  const headers = { Authorization: `Bearer ${operatorsToken}`, 'Content-Type': 'application/json' };
  return client.ask({ method, path: `/api/v1${path}`, headers, ...(body !== undefined && { body }) });
}

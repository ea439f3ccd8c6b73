import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { endpoints } from '../../src/operators/endpoints.ts';
import { views } from '../../src/operators/views.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { startApi, storeAt, token } from './api.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const run = promisify(execFile);

interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly required: boolean }[];
}

interface Description {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> };
}

const committed = JSON.parse(readFileSync('docs/operators.openapi.json', 'utf8')) as Description;
const operations = Object.entries(committed.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, { operationId, parameters = [] }]) => ({
    path,
    method,
    operationId,
    parameters,
  })),
);

test('the served description is the committed one', async () => {
  const { ask } = await startApi();
  expect((await ask('GET /openapi.json')).body).toEqual(committed);
  expect(committed.openapi).toBe('3.1.0');
});

test('the description follows the rules that Redocly recommends', { timeout: 60_000 }, () => {
  const { status, stdout } = spawnSync('redocly', ['lint', '--extends=recommended', 'docs/operators.openapi.json'], {
    env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
    encoding: 'utf8',
  });
  expect(stdout).not.toContain('warning');
  expect(status).toBe(0);
});

test('every operation is described once', () => {
  expect(operations.map(({ operationId }) => operationId).toSorted()).toEqual(
    endpoints.map(({ operation }) => operation).toSorted(),
  );
});

test.each(operations)('$method $path describes the parameters of its path', ({ path, parameters }) => {
  const inPath = parameters.filter((each) => each.in === 'path');
  expect(inPath.map(({ name }) => `{${name}}`)).toEqual(path.match(/\{\w+\}/g) ?? []);
  expect(inPath.every(({ required }) => required)).toBe(true);
});

test('only operations that create a secret accept an Idempotency-Key', () => {
  const taking = operations.filter(({ parameters }) => parameters.some(({ name }) => name === 'Idempotency-Key'));
  expect(taking.map(({ operationId }) => operationId).toSorted()).toEqual([
    'enable_encryption',
    'issue_key',
    'rotate_key',
  ]);
});

test('every reference resolves', () => {
  const references = [...JSON.stringify(committed).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path = '']) => path);
  expect(references.length).toBeGreaterThan(20);
  for (const path of references) {
    let part: unknown = committed;
    for (const step of path.split('/')) part = (part as Record<string, unknown>)[step];
    expect(part).toBeDefined();
  }
});

describeWithPostgres('all operations', () => {
  const postgres = usePostgres();

  test('have responses with the described members, and no others', async () => {
    const { ask } = await startApi({ store: storeAt(await postgres.createDatabase()) });
    const body = { environment: 'test', kind: 'secret' };
    const steps: [line: string, operation: string, body?: object][] = [
      ['GET /session', 'show_session'],
      ['POST /accounts', 'add_account', { id: 'acme', name: 'Acme' }],
      ['POST /accounts/acme/rename', 'rename_account', { name: 'Acme Ltd' }],
      ['POST /accounts/acme/deactivate', 'deactivate_account'],
      ['POST /accounts/acme/activate', 'activate_account'],
      ['POST /accounts/acme/keys', 'issue_key', { ...body, expires_in: '1d' }],
      ['POST /accounts/acme/keys/KEY/rotate', 'rotate_key'],
      ['POST /accounts/acme/keys/KEY/revoke', 'revoke_key'],
      ['POST /accounts/acme/encryption/live/enable', 'enable_encryption', { grace: '1h' }],
      ['POST /accounts/acme/encryption/live/enable', 'enable_encryption', { replace: true }],
      ['POST /accounts/acme/encryption/live/enable', 'enable_encryption', { grace: '1h', replace: true }],
      [
        'POST /accounts/acme/encryption/live/grace',
        'change_grace',
        { until: new Date(Date.now() + 60_000).toISOString() },
      ],
      ['GET /graces', 'list_graces'],
      ['GET /accounts/acme/encryption/live', 'show_encryption'],
      ['POST /accounts/acme/encryption/live/grace/end', 'end_grace'],
      ['POST /accounts/acme/encryption/live/seal', 'seal_body', { event: 'paid' }],
      ['GET /due', 'list_due'],
      ['GET /keys/find?sha256=HASH', 'find_key'],
      ['GET /activity', 'show_activity'],
      ['GET /failures', 'show_failures'],
      ['GET /overview', 'show_overview'],
      ['GET /traffic', 'show_traffic'],
      ['GET /configuration', 'show_configuration'],
      ['POST /diagnosis', 'diagnose_envelope', { key: 'k'.repeat(32), iv: 'i'.repeat(16), data: '00' }],
      ['GET /audit?account=acme', 'list_events'],
      ['GET /accounts/acme/keys', 'list_keys'],
      ['GET /accounts/acme/keys/KEY', 'show_key'],
      ['GET /accounts/acme', 'show_account'],
      ['GET /accounts', 'list_accounts'],
      ['POST /accounts/acme/encryption/live/disable', 'disable_encryption'],
      ['POST /accounts', 'add_account', { id: 'old', name: 'Old' }],
      ['POST /accounts/old/deactivate', 'deactivate_account'],
      ['POST /accounts/old/remove', 'remove_account'],
    ];
    let [key, hash] = ['', ''];
    for (const [line, operation, sent] of steps) {
      const response = await ask(line.replace('KEY', key).replace('HASH', hash), { body: sent });
      const endpoint = endpoints.find((each) => each.operation === operation);
      const described = endpoint?.response;
      expect(response.status).toBe(described?.status);
      // Parsing would drop members that the schema does not know.
      const view: z.ZodType = views[described?.view ?? 'Account'];
      expect(view.parse(response.body)).toEqual(response.body);
      expect(response.body['in_force']).toBe(['viewer', 'core'].includes(endpoint?.role ?? '') ? undefined : true);
      if (operation === 'issue_key') {
        key = response.body['id'] as string;
        hash = sha256Hex(response.body['key'] as string);
      }
    }
    expect(new Set(steps.map(([, operation]) => operation)).size).toBe(endpoints.length);
  });

  test('work with a client that is generated from the description and compiles strictly', async () => {
    // The program is in node_modules, because its imports of packages are resolved from its own folder.
    const folder = mkdtempSync(join('node_modules', '.client-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const program = join(folder, 'program.mts');
    const source = readFileSync('test/operators/client-program.ts', 'utf8');
    const own = source.replace('../../src/console/api-types.ts', './api-types.ts');
    expect(own).not.toBe(source);
    writeFileSync(program, own);
    await run('openapi-typescript', ['docs/operators.openapi.json', '--output', join(folder, 'api-types.ts')]);

    const options = ['strict', 'noUncheckedIndexedAccess', 'exactOptionalPropertyTypes', 'skipLibCheck'];
    const compiler = 'node_modules/@typescript/native/bin/tsc';
    const flags = [...options, 'rewriteRelativeImportExtensions', 'ignoreConfig'].map((name) => `--${name}`);
    await run(process.execPath, [compiler, ...flags, '--module', 'nodenext', '--types', 'node', program]).catch(
      (error: unknown) => expect((error as { stdout: string }).stdout).toBe(''),
    );

    const { url, sidecar } = await startApi({ store: storeAt(await postgres.createDatabase()) });
    const BASE = new URL(url).origin;
    await run(process.execPath, [program.replace('.mts', '.mjs')], { env: { ...process.env, BASE, TOKEN: token } });
    const asked = sidecar.log.filter(({ msg }) => msg === 'operator request');
    expect(new Set(asked.map(({ operation }) => operation))).toEqual(
      new Set(endpoints.map(({ operation }) => operation)),
    );
    expect(asked.filter(({ status }) => Number(status) >= 400).map(({ code }) => code)).toEqual(['account_unknown']);
  }, 60_000);
});

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { send } from '../support/client.ts';
import { startServe } from '../support/command.ts';
import { accountsFile, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { keys } from '../support/sidecar.ts';
import { blocks } from '../support/snippets.ts';
import { startUpstream } from '../support/upstream.ts';

const page = 'docs/operators/tls.md';
const [certificates = '', byServer = '', byBoth = '', ...others] = blocks(page, 'sh run');
const [server = '', mutual = ''] = blocks(page, 'yaml listen');
const [upstream = ''] = blocks(page, 'yaml upstream');

/** Runs a snippet from the page as a reader would, in the folder of the configuration. */
async function run(folder: Folder, code: string): Promise<string> {
  return (await promisify(execFile)('bash', ['-euc', code], { cwd: folder.path })).stdout;
}

let files: Readonly<Record<string, string>> = {};

beforeAll(async () => {
  // No clean-up is registered, because this is not a test. The tests get copies of the certificates.
  const folder = new Folder({}, () => {});
  await run(folder, certificates);
  const names = ['ca', 'gateway', 'sidecar', 'core'].flatMap((name) => [`${name}.crt`, `${name}.key`]);
  files = Object.fromEntries(names.map((name) => [name, readFileSync(folder.file(name), 'utf8')]));
});

/** Starts a sidecar with the members of a snippet, on a free port. */
async function start(snippet: string, origin: string) {
  const { listen, ...members } = parse(snippet) as { readonly listen?: object };
  const sidecar = { ...members, listen: { ...listen, host: '127.0.0.1', port: 0 } };
  const folder = new Folder({
    ...files,
    'sidecar.yaml': sidecarFile(origin, sidecar),
    'accounts.yaml': accountsFile(globexEntry(keys.globex)),
  });
  return { folder, sidecar: await startServe(folder.file('sidecar.yaml')) };
}

test('the page has the snippets that are tested here', () => {
  expect(others).toEqual([]);
  expect(upstream).toContain('https://localhost:3443');
});

describe.each([
  ['TLS', server, byServer],
  ['mTLS', mutual, byBoth],
])('the snippet for %s', (name, configuration, request) => {
  test('lets requests through with the certificates from the page, and only with these', async () => {
    const { origin } = await startUpstream();
    const { folder, sidecar } = await start(configuration, origin);
    const ask = (code: string): Promise<string> => run(folder, code.replaceAll(':8443', `:${sidecar.port}`));
    const response = await ask(request);
    expect(response).toMatch(/"code":"missing_api_key".*\n401\n$/);
    await expect(ask(request.replace('--cacert ca.crt', ''))).rejects.toMatchObject({ code: 60 });
    if (name === 'TLS') return;
    await expect(ask(byServer)).rejects.toMatchObject({ code: expect.any(Number) as number });
    const [failed] = await sidecar.untilEntries('TLS handshakes failed');
    expect(['certificate_missing', 'refused_by_client']).toContain(failed?.['reason']);
    await sidecar.until(() =>
      sidecar.entries('TLS handshakes failed').some(({ reason }) => reason === 'certificate_missing'),
    );
  });
});

test('the snippet for a core elsewhere reaches a core that demands the certificate of the sidecar', async () => {
  const names: string[] = [];
  const tls = { cert: files['core.crt'], key: files['core.key'], ca: files['ca.crt'] };
  const core = createServer({ ...tls, requestCert: true, rejectUnauthorized: true }, ({ socket }, res) => {
    names.push(String((socket as TLSSocket).getPeerCertificate().subject.CN));
    res.end('{}');
  });
  core.listen(0, '127.0.0.1');
  await once(core, 'listening');
  onTestFinished(() => {
    core.close();
    core.closeAllConnections();
  });
  const { port } = core.address() as AddressInfo;
  const { sidecar } = await start(upstream.replace(':3443', `:${port}`), 'http://127.0.0.1:1');
  expect((await send(sidecar, 'GET /x', { key: keys.globex })).status).toBe(200);
  expect(names).toEqual(['sidecar']);
});

import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config/load.ts';
import { formatFileProblem } from '../../src/yaml/file-problem.ts';
import { encrypted } from '../support/client.ts';
import { startCommand, type Command } from '../support/command.ts';
import { Folder } from '../support/folder.ts';
import { acmeWith, startGateway } from '../support/gateway.ts';
import { acmeTest, encryptionOf, keys } from '../support/sidecar.ts';
import { blocks, runSnippet } from '../support/snippets.ts';
import type { Respond } from '../support/upstream.ts';

/** The address of the demo on the pages. */
const shippedBase = 'http://127.0.0.1:8080';

interface AccountsOfDemo {
  readonly accounts: readonly {
    readonly keys: readonly { readonly key: string }[];
    readonly encryption: { readonly test: { readonly key: string; readonly iv: string } };
  }[];
}

/** Starts the demo on free ports. Also returns the data of a merchant, whose account encrypts in the shipped configuration. */
async function startDemo(): Promise<{ demo: Command; base: string; env: Record<string, string> }> {
  const demo = startCommand(['demo', '--free-ports']);
  const listening = await demo.untilEntries('listening', 2);
  const { port } = listening.find(({ listener }) => listener === 'merchants') ?? {};
  const base = `http://127.0.0.1:${Number(port)}`;
  const [account] = (parse(readFileSync('config/accounts.yaml', 'utf8')) as AccountsOfDemo).accounts;
  const { key = '', iv = '' } = account?.encryption.test ?? {};
  return { demo, base, env: { BASE: base, API_KEY: account?.keys[0]?.key ?? '', KEY: key, IV: iv } };
}

describe('README.md', () => {
  const [exchange = '', refused = '', ...more] = blocks('README.md', 'sh run');

  test('has two snippets to run', () => {
    expect([exchange, refused].every((code) => code.includes(shippedBase))).toBe(true);
    expect(more).toEqual([]);
  });

  test('shows an exchange as it happens', async () => {
    const { demo, base } = await startDemo();
    const [wire, said] = (await runSnippet(exchange.replaceAll(shippedBase, base), 'sh', {})).split('\n');
    expect(wire).toMatch(/^\{"data":"[0-9a-f]+"\}$/);
    expect(JSON.parse(said ?? '')).toMatchObject({ object: 'transaction', status: 'succeeded', amount: 1000 });
    const arrived = 'payment core │ 201 POST /api/s2s/charge acme {"amount":1000,"currency":"EUR"}';
    await demo.until(() => demo.stdout.includes(arrived));
  });

  test('shows a refusal as it happens', async () => {
    const { base } = await startDemo();
    const response = JSON.parse(await runSnippet(refused.replaceAll(shippedBase, base), 'sh', {})) as object;
    expect(response).toMatchObject({ status: 400, code: 'envelope_required' });
  });

  test('shows a complete and valid configuration', () => {
    const [sidecar = '', ...others] = blocks('README.md', 'yaml');
    expect(others).toEqual([]);
    const folder = new Folder({
      'sidecar.yaml': sidecar,
      'master-key': 'c'.repeat(64),
      'accounts.yaml': 'accounts: []\n',
    });
    const loaded = loadConfig(folder.file('sidecar.yaml'), {});
    expect(loaded.ok ? [] : loaded.problems.map(formatFileProblem)).toEqual([]);
  });
});

describe('docs/merchants.md', () => {
  const sh = blocks('docs/merchants.md', 'sh run');
  const js = blocks('docs/merchants.md', 'js run');

  test('has snippets in both languages', () => {
    expect([sh.length, js.length]).toEqual([4, 1]);
  });

  test('uses the values of the demo', async () => {
    const { env } = await startDemo();
    const shown = blocks('docs/merchants.md', 'sh').find((code) => code.startsWith('export BASE=')) ?? '';
    const exported = [...shown.matchAll(/^export (\w+)=(\S+)$/gm)].map(([, name = '', value = '']) => [name, value]);
    expect(Object.fromEntries(exported)).toEqual({ ...env, BASE: shippedBase });
  });

  test('shows how a response in base64 is opened', async () => {
    const [definitions = ''] = sh.find((code) => code.startsWith('hex()'))?.split('\n\n') ?? [];
    const [open = ''] = blocks('docs/merchants.md', 'sh base64');
    const response = JSON.stringify({ data: encrypted(acmeTest, '{"amount":1500}').toString('base64') });
    const { key: KEY, iv: IV } = acmeTest;
    expect(await runSnippet(`${definitions}\nRESPONSE='${response}'\n${open}`, 'sh', { KEY, IV })).toBe(
      '{"amount":1500}\n',
    );
  });

  test.each(['hex', 'base64'] as const)(
    'shows JavaScript that reads every kind of response, in %s',
    async (encoding) => {
      const respond: Respond = (seen, res) => {
        if (seen.url.endsWith('/none')) res.writeHead(204).end();
        else if (seen.url.endsWith('/text')) res.writeHead(200, { 'content-type': 'text/plain' }).end('é');
        else res.writeHead(422, { 'content-type': 'application/json' }).end('{"error":"amount"}');
      };
      const { sidecar } = await startGateway({ respond, accounts: [acmeWith(encryptionOf(acmeTest, { encoding }))] });
      const [functions = ''] = js[0]?.split('console.log') ?? [];
      const calls = ['none', 'text', 'json'].map(
        (path) => `console.log(JSON.stringify(await call('GET', '/api/s2s/${path}')));`,
      );
      const env = { BASE: `http://127.0.0.1:${sidecar.port}`, API_KEY: keys.acme, KEY: acmeTest.key, IV: acmeTest.iv };
      const printed = await runSnippet(functions + calls.join('\n'), 'js', env);
      expect(printed.trim().split('\n')).toEqual([
        '{"status":204}',
        '{"status":200,"body":"é"}',
        '{"status":422,"body":{"error":"amount"}}',
      ]);
    },
  );

  test('shows JavaScript that rejects a 2xx response that is not sealed', async () => {
    const { sidecar } = await startGateway({ accounts: [{ ...acmeWith(encryptionOf(acmeTest)), encryption: {} }] });
    const [functions = ''] = js[0]?.split('console.log') ?? [];
    const env = { BASE: `http://127.0.0.1:${sidecar.port}`, API_KEY: keys.acme, KEY: acmeTest.key, IV: acmeTest.iv };
    const call = `await call('GET', '/api/s2s/x').catch((error) => console.log(error.message));`;
    expect(await runSnippet(functions + call, 'js', env)).toMatch(/^200 came unsealed: /);
  });

  test('shows charges that reach the payment core', async () => {
    const { demo, env } = await startDemo();
    for (const code of sh) await runSnippet(code, 'sh', env);
    for (const code of js) await runSnippet(code, 'js', env);
    for (const reference of ['order-1001', 'order-1002']) {
      await demo.until(() => demo.stdout.includes(`"reference":"${reference}"}`));
    }
  });
});

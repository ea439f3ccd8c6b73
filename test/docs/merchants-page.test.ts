import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { problems } from '../../src/operators/problems.ts';
import { blocks, runSnippet } from '../support/snippets.ts';
import { operatorsOf } from '../support/sidecar.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { dashboard, startApi, storeAt, type TestApi } from '../operators/api.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const page = 'docs/operators/merchants-page.md';
const [functions = '', ...uses] = blocks(page, 'js run');
const own = 'token-of-the-dashboard-for-acme-alone';

/** Runs the page's code as its backend would. Returns the lines of its output. */
async function run(code: string, API: string): Promise<string[]> {
  return (await runSnippet(code, 'js', { API, TOKEN: own })).trim().split('\n');
}

describeWithPostgres('docs/operators/merchants-page.md', () => {
  const postgres = usePostgres();

  /** Starts the API with two accounts, and with the token that the page shows for one of them. */
  async function withMerchants(): Promise<TestApi> {
    const [shown = ''] = blocks(page, 'yaml');
    const { operators } = parse(shown) as {
      operators: { tokens: [{ name: string; role: 'operator'; account: string }] };
    };
    const { name, role, account } = operators.tokens[0];
    const api = await startApi({
      operators: operatorsOf([dashboard, { name, role, account, hash: sha256Hex(own) }]),
      store: storeAt(await postgres.createDatabase()),
    });
    for (const id of ['acme', 'globex']) await api.ask('POST /accounts', { body: { id, name: id } });
    return api;
  }

  test('the backend of the page enables and disables encryption for one merchant, and shows the secret once', async () => {
    const { url, ask } = await withMerchants();
    const printed = await run([functions, ...uses].join('\n'), url);
    expect(printed).toEqual([
      expect.stringMatching(/^Key \S{32}, IV \S{16}\. Plaintext is accepted until \d{4}-\d\d-\d\dT\S+Z\.$/),
      'Shown: false',
      'Encryption is on.',
    ]);
    const { body } = await ask('GET /accounts/acme/encryption/test');
    expect(body).toMatchObject({ enabled: false, previous: { accepts: 'credentials' } });
    const actors = (await ask('GET /audit?account=acme')).body['events'] as { actor: string }[];
    expect(new Set(actors.map(({ actor }) => actor))).toEqual(new Set(['token:dashboard', 'token:dashboard-acme']));
  });

  test('each function works for its own merchant and for no other', async () => {
    const { url } = await withMerchants();
    const calls = `
    const mine = settings('acme');
    const { id } = await mine.issueKey('live', 'public', 'click-1');
    const next = await mine.rotateKey(id, 'click-2');
    await mine.revokeKey(next.id);
    console.log((await mine.keys()).keys.map(({ state }) => state).join());
    console.log((await mine.refusals()).refusals.length);
    const other = settings('globex');
    const clicks = [() => other.keys(), () => other.issueKey('live', 'public'), () => other.rotateKey(id), () => other.revokeKey(id),
      () => other.encryption('test'), () => other.enable('test'), () => other.disable('test'), () => other.endGrace('test'),
      () => other.refusals()];
    if (clicks.length !== Object.keys(other).length) throw new Error('a function is missing here');
    for (const click of clicks) console.log(await click().then(() => 'done', ({ code }) => code));`;
    const printed = await run(functions + calls, url);
    expect(printed).toEqual(['valid,revoked', '0', ...Array.from({ length: 9 }, () => 'forbidden')]);
  });

  test('a secret that is lost while plaintext is accepted can be replaced, and plaintext works throughout', async () => {
    const { url } = await withMerchants();
    const calls = `
    const mine = settings('acme');
    await mine.enable('test', 'lost');
    console.log((await mine.encryption('test')).previous.accepts);
    await ask('POST', '/accounts/acme/encryption/test/disable');
    console.log((await mine.encryption('test')).enabled);
    console.log((await mine.enable('test', 'again')).secret_shown, (await mine.encryption('test')).previous.accepts);
    console.log(await mine.enable('live').then(() => 'done', ({ code }) => code));`;
    // The last outcome is the one that the page gives for the role.
    expect(await run(functions + calls, url)).toEqual(['plaintext', 'false', 'true plaintext', 'forbidden']);
  });
});

test('the codes that the page explains are those of the API', () => {
  const [, list = ''] = /^Messages for error codes:$([^]*)/m.exec(readFileSync(page, 'utf8')) ?? [];
  const codes = [...list.matchAll(/^- (`.*?): /gm)].flatMap(
    ([, names = '']) => names.match(/(?<=`)[a-z]+_?[a-z]+\*?(?=`)/g) ?? [],
  );
  expect(codes.length).toBeGreaterThan(6);
  for (const code of codes.filter((each) => !each.endsWith('*'))) expect(problems).toHaveProperty(code);
});

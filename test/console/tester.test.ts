import { createCipheriv, createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Page } from 'playwright-core';
import { describeWithChromium, useBrowser } from './browser.ts';
import { signIn, useConsole } from './sidecar.ts';

const key = 'demo+key/that+is/base64+too+3232';
const iv = 'ZGVtby1pdi1vZi0x';
const json = '{"amount":1000,"currency":"EUR","note":"é"}';

/** What a merchant's code with the named slip makes of the text. */
function sealed({
  algorithm = 'aes-256-cbc',
  usedKey = Buffer.from(key),
  usedIv = Buffer.from(iv),
  text = json,
  padding = true,
}: {
  algorithm?: string;
  usedKey?: Buffer;
  usedIv?: Buffer | null;
  text?: string | Buffer;
  padding?: boolean;
} = {}): Buffer {
  const cipher = createCipheriv(algorithm, usedKey, usedIv).setAutoPadding(padding);
  return Buffer.concat([cipher.update(text), cipher.final()]);
}

const good = sealed().toString('hex');
const otherKey = createHash('sha256').update('another').digest();

/** By what the tester says in the browser, and what the sidecar finds besides. */
const slips: readonly (readonly [name: string, sent: string, told: string, cause?: string])[] = [
  ['line breaks', `{"data":"${good.slice(0, 64)}\\n${good.slice(64)}"}`, 'neither hex nor padded base64', 'line break'],
  ['url-safe base64', Buffer.from('??>>'.repeat(8)).toString('base64url'), 'neither hex nor', 'url-safe base64'],
  ['an odd digit', good.slice(1), 'neither hex nor padded base64', 'odd number of hex digits'],
  ['a cut', good.slice(2), 'not whole blocks of 16', 'not whole blocks of 16'],
  ['twice encoded', Buffer.from(good).toString('base64'), 'wrong', 'looks like base64 of hex'],
  ['another key', sealed({ usedKey: otherKey }).toString('base64'), 'the key is wrong', 'check key'],
  [
    'another IV',
    sealed({ usedIv: otherKey.subarray(0, 16) }).toString('hex'),
    'the key is right, the IV is not',
    'the IV is wrong',
  ],
  [
    'a key decoded from base64',
    sealed({ algorithm: 'aes-192-cbc', usedKey: Buffer.from(key, 'base64') }).toString('hex'),
    'the key is wrong',
    'the key was decoded from base64, so that AES-192 was used',
  ],
  ['ECB', sealed({ algorithm: 'aes-256-ecb', usedIv: null }).toString('hex'), '', 'the mode is ECB'],
  [
    'no padding',
    sealed({ text: '{"amount":10000}', padding: false }).toString('hex'),
    'padding',
    'the padding is missing',
  ],
  ['Latin-1', sealed({ text: Buffer.from(json, 'latin1') }).toString('hex'), 'not to UTF-8', 'Latin-1'],
  ['no JSON', sealed({ text: 'amount=1000&currency=EUR' }).toString('hex'), 'not to JSON', 'not JSON'],
];

describeWithChromium('the tester in the console', () => {
  const browser = useBrowser();
  const sidecar = useConsole(() => ({ accounts: { accounts: [{ id: 'acme', name: 'A' }] } }));

  test('says why an envelope does not open, in the browser and, if asked to, by the sidecar', async () => {
    const { url, serving } = sidecar();
    const page = await browser.open(`${url}#/accounts/acme/encryption`);
    const sent: string[] = [];
    page.on('request', (request) => sent.push(request.url(), request.postData() ?? ''));
    await signIn(page, 'viewer');
    const tester = page.getByRole('region', { name: 'Tester' });
    const envelope = tester.getByLabel('Envelope', { exact: true });
    const open = tester.getByRole('button', { name: 'Open', exact: true });
    const told = tester.getByRole('status');

    await tester.getByLabel('Key', { exact: true }).fill('short');
    await open.click();
    await told.getByText('The key must be 32 bytes').waitFor();
    await tester.getByLabel('Key', { exact: true }).fill(key);
    await tester.getByLabel('IV', { exact: true }).fill('short');
    await open.click();
    await told.getByText('The IV must have 16 characters').waitFor();
    await tester.getByLabel('IV', { exact: true }).fill(iv);
    await open.click();
    await told.getByText('There is no envelope').waitFor();

    for (const form of [
      good,
      good.toUpperCase(),
      sealed().toString('base64'),
      `{"data":"${good}"}`,
      JSON.stringify(good),
    ]) {
      await opens(tester.page(), form);
    }
    // Without being asked to, nothing is sent.
    expect(sent.join('\n')).not.toContain(key);

    for (const [name, text, inBrowser, cause] of slips) {
      await envelope.fill(text);
      await open.click();
      await expect
        .poll(async () => [name, await told.textContent()])
        .toEqual([name, expect.stringContaining(inBrowser)]);
      await tester.getByRole('button', { name: 'Find the cause' }).click();
      await told.getByText(/^The cause:/).waitFor();
      expect([name, await told.textContent()]).toEqual([name, expect.stringContaining(cause ?? '')]);
    }
    expect(serving.stdout).not.toContain(key);

    async function opens(page: Page, form: string): Promise<void> {
      await tester.getByLabel('Text', { exact: true }).fill('');
      await envelope.fill(form);
      await open.click();
      await told.getByText('The envelope opens.').waitFor();
      expect(await page.getByLabel('Text', { exact: true }).inputValue()).toBe(json);
    }
  }, 60_000);
});

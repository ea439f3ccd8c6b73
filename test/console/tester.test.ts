import { expect, test } from 'vitest';
import { encrypt, iv, json, key, misspelt, slips } from '../envelope/slips.ts';
import { describeWithChromium, useBrowser } from './browser.ts';
import { signIn, useConsole } from './sidecar.ts';

const good = encrypt(json).toString('hex');

/** What the browser finds out about an envelope without sending anything. */
const inBrowser: Readonly<Record<string, string>> = {
  'line breaks': 'neither hex nor padded base64',
  'url-safe base64': 'neither hex nor padded base64',
  'an odd digit': 'neither hex nor padded base64',
  'a cut': 'not a multiple of 16',
};

describeWithChromium('the tester in the console', () => {
  const browser = useBrowser();
  const sidecar = useConsole(() => ({ accounts: { accounts: [{ id: 'acme', name: 'A' }] } }));

  test('opens a valid envelope in every form in which it is pasted, and sends nothing', async () => {
    const { page, tester, told, open, envelope, sent } = await openTester();
    for (const [label, short, fault] of [
      ['Key', key, 'The key must be 32 bytes'],
      ['IV', iv, 'The IV must be text of at least 16 characters'],
    ] as const) {
      await tester.getByLabel(label, { exact: true }).fill('short');
      await open.click();
      await told.getByText(fault).waitFor();
      await tester.getByLabel(label, { exact: true }).fill(short);
    }
    await open.click();
    await told.getByText('There is no envelope').waitFor();
    const base64 = encrypt(json).toString('base64');
    for (const form of [good, good.toUpperCase(), base64, `{"data":"${good}"}`, JSON.stringify(good)]) {
      await tester.getByLabel('Text', { exact: true }).fill('');
      await envelope.fill(form);
      await open.click();
      await told.getByText('The envelope opens.').waitFor();
      expect(await page.getByLabel('Text', { exact: true }).inputValue()).toBe(json);
    }
    expect(sent.join('\n')).not.toContain(key);
  });

  test('explains why an envelope does not open, in the browser and, on request, by the sidecar', async () => {
    const { tester, told, open, envelope } = await openTester();
    await tester.getByLabel('Key', { exact: true }).fill(key);
    await tester.getByLabel('IV', { exact: true }).fill(iv);
    const find = tester.getByRole('button', { name: 'Find the cause' });
    const all = [...misspelt, ...slips.map(([name, bytes, cause]) => [name, bytes.toString('hex'), cause] as const)];
    for (const [name, data, cause] of all) {
      await envelope.fill(JSON.stringify({ data }));
      await open.dispatchEvent('click');
      await find.waitFor();
      expect([name, await told.textContent()]).toEqual([name, expect.stringContaining(inBrowser[name] ?? '')]);
      await find.dispatchEvent('click');
      await find.waitFor({ state: 'detached' });
      expect([name, await told.textContent()]).toEqual([name, expect.stringContaining('The cause: ')]);
      expect([name, await told.textContent()]).toEqual([name, expect.stringContaining(cause)]);
    }
    expect(sidecar().serving.stdout).not.toContain(key);
  });

  async function openTester() {
    const page = await browser.open(`${sidecar().url}#/accounts/acme/encryption`);
    const sent: string[] = [];
    page.on('request', (request) => sent.push(request.url(), request.postData() ?? ''));
    await signIn(page, 'viewer');
    const tester = page.getByRole('region', { name: 'Tester' });
    return {
      page,
      sent,
      tester,
      told: tester.getByRole('status'),
      open: tester.getByRole('button', { name: 'Open', exact: true }),
      envelope: tester.getByLabel('Envelope', { exact: true }),
    };
  }
});

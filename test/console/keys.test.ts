import { expect, test } from 'vitest';
import type { Page } from 'playwright-core';
import { startUpstream } from '../support/upstream.ts';
import { describeWithChromium, useBrowser } from './browser.ts';
import { codeOf, eventually, Merchant } from './merchant.ts';
import { signIn, startConsole } from './sidecar.ts';

const acme = { accounts: [{ id: 'acme', name: 'Acme Stores' }] };

/** The key that a dialog shows once. */
async function takeKey(page: Page): Promise<string> {
  const dialog = page.getByRole('dialog', { name: 'The new API key' });
  const key = (await dialog.locator('.secret code').textContent()) ?? '';
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await dialog.getByRole('button', { name: 'Done' }).click();
  return key;
}

describeWithChromium('API keys in the console', () => {
  const browser = useBrowser();

  test('a key is issued, rotated with an overlap, and revoked, as the merchant finds out', async () => {
    const upstream = await startUpstream();
    const { serving, url } = await startConsole(upstream.origin, { accounts: acme });
    const merchant = new Merchant(serving.port);
    const page = await browser.open(`${url}#/accounts/acme/keys`);
    await signIn(page, 'operator');

    await page.getByRole('button', { name: 'Issue key' }).click();
    const issue = page.getByRole('dialog', { name: 'Issue an API key' });
    await issue.getByLabel('Expires after').selectOption('180 days');
    await issue.getByRole('button', { name: 'Issue key' }).click();
    const key = await takeKey(page);
    expect(key).toMatch(/^sk_test_/);
    await eventually(async () => (await merchant.charge(key)).status).toBe(200);

    const row = page.getByRole('row').filter({ hasText: 'Secret' });
    const id = (await row.getByRole('rowheader').textContent()) ?? '';
    await row.getByRole('button', { name: 'Rotate' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Rotate' }).click();
    const successor = await takeKey(page);
    expect(successor).not.toBe(key);
    await eventually(async () => (await merchant.charge(successor)).status).toBe(200);
    expect((await merchant.charge(key)).status).toBe(200);

    await page.getByRole('button', { name: `Revoke ${id}` }).click();
    const revoke = page.getByRole('dialog', { name: `Revoke ${id}?` });
    await revoke.getByLabel(`Type ${id} to confirm`).fill(id.slice(1));
    expect(await revoke.getByRole('button', { name: 'Revoke' }).isDisabled()).toBe(true);
    await revoke.getByLabel(`Type ${id} to confirm`).fill(id);
    await revoke.getByRole('button', { name: 'Revoke' }).click();
    await page.getByText(`${id} was revoked.`).waitFor();
    await eventually(async () => codeOf(await merchant.charge(key))).toBe('invalid_api_key');
    expect((await merchant.charge(successor)).status).toBe(200);

    // Shown once: not in the page any more, nor in what the browser keeps.
    expect(await page.content()).not.toContain(successor);
    expect(
      await page.evaluate('JSON.stringify([location.href, document.title, localStorage, sessionStorage])'),
    ).not.toMatch(/sk_test_/);
  }, 90_000);

  test('a pasted key leads to its account, and never leaves the browser', async () => {
    const { serving, url } = await startConsole('http://127.0.0.1:1', {
      accounts: {
        accounts: [
          { id: 'acme', name: 'Acme Stores' },
          {
            id: 'globex',
            name: 'Globex',
            keys: [{ id: 'leaked', key: 'sk_test_leakedleakedleaked', createdAt: '2026-01-01' }],
          },
        ],
      },
    });
    const page = await browser.open(url);
    const sent: string[] = [];
    page.on('request', (request) => sent.push(request.url(), request.postData() ?? ''));
    await signIn(page, 'viewer');
    await page.getByRole('link', { name: 'Accounts' }).click();
    await page.getByLabel('Search').pressSequentially('sk_test_leakedleakedleaked');
    await page.getByRole('heading', { name: 'Globex' }).waitFor();
    await page.getByText('This is the key leaked.').waitFor();
    expect(sent.join('\n')).not.toContain('sk_test_');
    expect(serving.stdout).not.toContain('sk_test_leaked');
    await page.getByRole('link', { name: 'Accounts' }).first().click();
    browser.expectComplaint(/404/);
    await page.getByLabel('Search').fill('sk_test_unknownunknownunknown');
    await page.getByText('No account has this API key.').waitFor();
  }, 90_000);
});

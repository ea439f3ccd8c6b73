import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { describeWithChromium, useBrowser } from './browser.ts';
import { signIn, startConsole } from './sidecar.ts';

describeWithChromium('the audit trail in the console', () => {
  const browser = useBrowser();

  test('tells who has done what, of one account or of all, and is exported as CSV without formulas', async () => {
    const { url } = await startConsole('http://127.0.0.1:1', {
      accounts: { accounts: [{ id: 'acme', name: 'Acme' }] },
    });
    const page = await browser.open(`${url}#/accounts/acme`);
    await signIn(page, 'operator');
    await page.getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('=HYPERLINK("http://x")');
    await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
    await page.getByText('The account was renamed.').waitFor();
    await page.getByRole('link', { name: 'Activity' }).click();
    await page.getByRole('cell', { name: 'Account renamed' }).waitFor();
    await page.getByRole('cell', { name: 'token:otto' }).waitFor();

    await page.getByRole('link', { name: 'Audit' }).click();
    await page.getByRole('cell', { name: 'Account renamed' }).waitFor();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export as CSV' }).click(),
    ]);
    const [head, row, ...more] = readFileSync(await download.path(), 'utf8').split('\r\n');
    expect(head).toBe('"at","actor","action","account","details"');
    expect(row).toMatch(/^"[0-9T:Z-]+","token:otto","account_renamed","acme","\{.*HYPERLINK.*\}"$/);
    expect(more).toEqual(['']);

    await page.getByLabel('Account', { exact: true }).fill('globex');
    await page.keyboard.press('Enter');
    await page.getByText('Nothing was changed in this time.').waitFor();
  }, 120_000);
});

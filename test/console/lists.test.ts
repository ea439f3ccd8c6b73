import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { describeWithChromium, useBrowser } from './browser.ts';
import { signIn, useConsole } from './sidecar.ts';

const leaked = 'sk_test_leakedleakedleaked';
const keys = [{ id: 'leaked', key: leaked, createdAt: '2026-01-01' }];

describeWithChromium('the lists in the console', () => {
  const browser = useBrowser();
  const sidecar = useConsole(() => ({
    accounts: {
      accounts: [
        { id: 'acme', name: 'Acme Stores' },
        { id: 'globex', name: 'Globex', keys },
      ],
    },
  }));

  test('find the account of a pasted API key, which never leaves the browser', async () => {
    const { serving, url } = sidecar();
    const page = await browser.open(url);
    const sent: string[] = [];
    page.on('request', (request) => sent.push(request.url(), request.postData() ?? ''));
    await signIn(page, 'viewer');
    await page.getByRole('link', { name: 'Accounts' }).click();
    await page.getByLabel('Search').pressSequentially(leaked);
    await page.getByRole('heading', { name: 'Globex' }).waitFor();
    await page.getByText('This is the key leaked.').waitFor();
    expect(sent.join('\n')).not.toContain('sk_test_');
    expect(serving.stdout).not.toContain('sk_test_leaked');
    await page.getByRole('link', { name: 'Accounts' }).first().click();
    browser.expectComplaint(/404/);
    await page.getByLabel('Search').fill('sk_test_unknownunknownunknown');
    await page.getByText('No account has this API key.').waitFor();
  });

  test('show the audit trail of one account or of all, and export it as CSV without formulas', async () => {
    const page = await browser.open(`${sidecar().url}#/accounts/acme`);
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
    const file = sidecar().folder.file('audit.csv');
    await download.saveAs(file);
    const [head, ...lines] = readFileSync(file, 'utf8').split('\r\n');
    expect(head).toBe('"at","actor","action","account","details"');
    expect(lines.join('\n')).toContain('"token:otto","operator_signed_in"');
    const [row, ...more] = lines.filter((line) => !line.includes('"operator_signed_in"'));
    expect(row).toMatch(/^"[0-9T:Z-]+","token:otto","account_renamed","acme","\{.*HYPERLINK.*\}"$/);
    expect(more).toEqual(['']);

    await page.getByLabel('Account', { exact: true }).fill('globex');
    await page.keyboard.press('Enter');
    await page.getByText('Nothing was changed in this period.').waitFor();
  });
});

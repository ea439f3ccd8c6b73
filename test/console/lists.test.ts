import { appendFileSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { describeWithChromium, useBrowser } from './browser.ts';
import { codeOf } from './merchant.ts';
import { signIn, useConsole } from './sidecar.ts';
import { select } from './steps.ts';

const leaked = 'sk_test_leakedleakedleaked';
const keys = [
  { id: 'leaked', name: 'Till 3', key: leaked, createdAt: '2026-01-01' },
  { id: 'over', key: 'sk_test_overoveroverover', createdAt: '2026-01-01', expiresAt: '2026-02-01' },
];
const idle = { id: 'idle', key: 'pk_live_idleidleidleidle', createdAt: '2025-01-01' };

describeWithChromium('the lists in the console', () => {
  const browser = useBrowser();
  const sidecar = useConsole(() => ({
    accounts: {
      accounts: [
        { id: 'acme', name: 'Acme Stores' },
        { id: 'globex', name: 'Globex', keys: [...keys, idle] },
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
    await page.getByRole('status').getByText('This key is valid in Test.').waitFor();
    expect(sent.join('\n')).not.toContain('sk_test_');
    expect(serving.stdout).not.toContain('sk_test_leaked');
    await page.getByRole('link', { name: 'Accounts' }).first().click();
    browser.expectComplaint(/404/);
    await page.getByLabel('Search').fill('sk_test_unknownunknownunknown');
    await page.getByText('No account has this API key.').waitFor();
  });

  test('lead to a pasted key that was revoked, and show by whom, and how often it was tried since', async () => {
    const { merchant, upstream, url } = sidecar();
    expect((await merchant.charge(leaked)).status).toBe(200);
    const page = await browser.open(`${url}#/accounts/globex`);
    await signIn(page, 'operator');
    await page.getByRole('img', { name: '1 request in 24 hours' }).waitFor();
    await select(page, 'Till 3', 'Revoke');
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('leaked was revoked.').waitFor();
    await expect.poll(async () => codeOf(await merchant.charge(leaked))).toBe('invalid_api_key');
    const seen = upstream.seen.length;
    for (let i = 0; i < 2; i += 1) await merchant.charge(leaked);
    expect(upstream.seen.length).toBe(seen);

    await page.getByRole('link', { name: 'Accounts' }).first().click();
    await page.getByLabel('Search').fill(leaked);
    const found = page.getByRole('status').filter({ hasText: 'leaked' });
    await found.getByText(/revoked .* by otto, \d+ attempts since at this sidecar, the last .*\./).waitFor();
    expect(await found.getAttribute('class')).toBe('box bad');
    await page.getByRole('row').filter({ hasText: 'Till 3' }).getByText('Revoked').waitFor();
    await page.getByRole('button', { name: 'Expired 1' }).click();
    await page.getByRole('row').filter({ hasText: 'over' }).waitFor();
    await page.reload();
    await page.getByRole('row').filter({ hasText: 'over' }).waitFor();
    await found.getByText(/by otto/).waitFor();
    await page.getByRole('button', { name: 'Live' }).click();
    await page.getByText('No key is expired.').waitFor();
  });

  test('show the use of 30 days at all sidecars if it is stored', async () => {
    const page = await browser.open(sidecar().url);
    await page.route('**/api/v1/accounts?*', async (route) => {
      const response = await route.fetch();
      const body = (await response.json()) as { accounts: { use: object }[] };
      for (const { use } of body.accounts) Object.assign(use, { days: Array.from({ length: 30 }, () => 4) });
      await route.fulfill({ response, json: body });
    });
    await signIn(page, 'viewer');
    await page.getByRole('link', { name: 'Accounts' }).click();
    await page.getByRole('columnheader', { name: 'Use, 30 days' }).waitFor();
    expect(await page.getByRole('img', { name: '120 requests in 30 days' }).count()).toBe(2);
  });

  test('never show more accounts than there are, although the count may be a minute old', async () => {
    const page = await browser.open(`${sidecar().url}#/accounts`);
    await page.route('**/api/v1/overview', async (route) => {
      const response = await route.fetch();
      const body = (await response.json()) as { counts: { accounts: number } };
      body.counts.accounts = 1;
      await route.fulfill({ response, json: body });
    });
    await signIn(page, 'viewer');
    await page.getByRole('status').getByText('2 of 2').waitFor();
  });

  test('keep the search and the filter when the operator comes back', async () => {
    const page = await browser.open(`${sidecar().url}#/accounts`);
    await signIn(page, 'viewer');
    await page.getByRole('link', { name: 'acme' }).waitFor();
    await page.getByLabel('Search').fill('glo');
    await page.getByRole('link', { name: 'acme' }).waitFor({ state: 'detached' });
    await page.getByLabel('Show').selectOption('With keys due');
    await page.getByRole('link', { name: 'globex' }).click();
    await page.getByRole('heading', { name: 'Globex' }).waitFor();
    await page.goBack();
    await page.getByRole('link', { name: 'globex' }).waitFor();
    expect(await page.getByLabel('Search').inputValue()).toBe('glo');
    expect(await page.getByLabel('Show').inputValue()).toBe('due');
    expect(await page.getByRole('rowheader').count()).toBe(1);
    await page.getByRole('status').getByText('1 of 2').waitFor();
    // The order is not checked. The address has the search and the filter in the order in which they took effect, and a search takes effect
    // a moment after typing.
    const kept = new URLSearchParams(page.url().split('?')[1]);
    expect(Object.fromEntries(kept)).toEqual({ search: 'glo', filter: 'due' });
    await page.reload();
    await page.getByRole('link', { name: 'globex' }).waitFor();
    expect(await page.getByRole('rowheader').count()).toBe(1);
    await page.getByRole('button', { name: 'Actions for globex' }).click();
    await page.getByRole('button', { name: 'Encryption Settings' }).click();
    await page.waitForURL('**/#/accounts/globex/encryption');
  });

  test('show the audit trail of one account or of all, and export it as CSV without formulas', async () => {
    const page = await browser.open(`${sidecar().url}#/accounts/acme`);
    await signIn(page, 'operator');
    await page.getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('=HYPERLINK("http://x")');
    await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
    await page.getByText('The account was renamed.').waitFor();
    await page.getByRole('link', { name: 'Activity' }).click();
    await page.getByRole('cell', { name: 'renamed acme to =HYPERLINK("http://x")' }).waitFor();
    await page.getByRole('cell', { name: 'otto' }).first().waitFor();

    await page.getByRole('link', { name: 'Audit' }).click();
    await page.getByRole('cell', { name: 'renamed acme to' }).waitFor();
    await page.getByRole('cell', { name: 'signed in as operator' }).first().waitFor();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export as CSV' }).click(),
    ]);
    const file = sidecar().folder.file('audit.csv');
    await download.saveAs(file);
    const [head, ...lines] = readFileSync(file, 'utf8').split('\r\n');
    expect(head).toBe('"position","at","actor","action","account","details","origin"');
    expect(lines.join('\n')).toContain('"token:otto","operator_signed_in"');
    const row = lines.find((line) => line.includes('"account_renamed"'));
    expect(row).toMatch(/^"\d+","[0-9T:Z-]+","token:otto","account_renamed","acme","\{.*HYPERLINK.*\}","127.0.0.1"$/);
    expect(lines.at(-1)).toBe('');

    await page.getByLabel('What').selectOption('Account renamed');
    await page.getByLabel('Who').fill('nobody');
    await page.keyboard.press('Enter');
    await page.getByText('There is no such event.').waitFor();
    await page.getByLabel('Who').fill('otto');
    await page.keyboard.press('Enter');
    await page.getByRole('cell', { name: 'renamed acme to' }).waitFor();
    const today = new Date().toISOString().slice(0, 10);
    await page.getByLabel('To').fill('2026-01-01');
    await page.getByText('There is no such event.').waitFor();
    await page.getByLabel('To').fill(today);
    await page.getByRole('cell', { name: 'renamed acme to' }).waitFor();
    await page.getByLabel('Environment').selectOption('Live');
    await page.getByText('There is no such event.').waitFor();
    await page.getByRole('link', { name: 'Overview' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.goBack();
    await page.getByText('There is no such event.').waitFor();
    const kept = { action: 'account_renamed', actor: 'otto', to: today, environment: 'live' };
    expect(Object.fromEntries(new URLSearchParams(page.url().split('?')[1]))).toEqual(kept);
    expect(await page.getByLabel('What').inputValue()).toBe('account_renamed');
    expect(await page.getByLabel('To').inputValue()).toBe(today);
  });

  test('show an import of many accounts as one row that opens, and the events before and after it page by page', async () => {
    const { folder, url } = sidecar();
    const event = (action: string, account: string, details = {}) =>
      `${JSON.stringify({ at: new Date().toISOString(), actor: 'user:root', action, account, details })}\n`;
    const imported = Array.from({ length: 1_200 }, (_, i) => event('account_imported', `m${i}`));
    const added = Array.from({ length: 130 }, (_, i) => event('account_added', `a${i}`, { name: 'A' }));
    const used = { key: 'k1', environment: 'live', last_used_at: new Date(Date.now() - 61_000).toISOString() };
    const revoked = event('key_revoked', 'zeta', used);
    const refused = event('operators_refused', 'none', { requests: 31 });
    const exported = event('accounts_exported', 'none');
    const changed = event('configuration_changed', 'none', { configuration_hash: 'c0ffee' });
    appendFileSync(
      folder.file('accounts.audit.jsonl'),
      [...imported, ...added, exported, changed, refused, revoked].join(''),
    );
    const page = await browser.open(`${url}#/audit?actor=root`);
    await signIn(page, 'viewer');
    const first = page.getByRole('row').nth(1);
    await first.getByText('revoked key k1 of zeta (live), last used 1 minute before').waitFor();
    expect(await page.getByRole('button', { name: 'Newer' }).count()).toBe(0);
    await page.getByText('31 requests with wrong tokens were refused in a minute').waitFor();
    await page.getByText('exported all accounts').waitFor();
    await page.getByText('applied another configuration, c0ffee').waitFor();
    await page.getByRole('button', { name: 'Older' }).click();
    await first.getByText('added a33').waitFor();
    await page.reload();
    await page.getByText('imported 1,200 accounts').click();
    await page.getByRole('link', { name: 'm700' }).waitFor();
    expect(await page.getByRole('button', { name: 'Older' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Newer' }).click();
    await first.getByText('revoked key k1').waitFor();
    await page.goBack();
    await page.getByText('imported 1,200 accounts').waitFor();
  });
});

import { describe, expect, test } from 'vitest';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { describeWithChromium, useBrowser, type TestBrowser } from './browser.ts';
import { codeOf, opened } from './merchant.ts';
import { signIn, useConsole, type ConsoleSidecar } from './sidecar.ts';
import { addAccount, confirm, issueKey, select, takeCredentials, takeKey } from './steps.ts';

describeWithChromium('every action of the page, as the merchant finds out', () => {
  const browser = useBrowser();

  describe('with the accounts in a file', () => {
    actions(
      browser,
      useConsole(() => ({})),
    );
  });

  describeWithPostgres('with the accounts in PostgreSQL', () => {
    const postgres = usePostgres();
    let database = '';
    const sidecar = useConsole(async () => {
      database = await postgres.createDatabase();
      return { more: { accounts: { postgres: { url: database, masterKey: 'a'.repeat(64) } } } };
    });
    actions(browser, sidecar);

    test('100,000 accounts are searched, filtered and paged through, in bounded responses', async () => {
      await postgres.psql(database, hundredThousand);
      const page = await browser.open(`${sidecar().url}#/accounts`);
      const sizes: Promise<number>[] = [];
      page.on('response', (response) => {
        if (response.url().includes('/api/v1/accounts')) sizes.push(response.body().then(({ length }) => length));
      });
      await signIn(page, 'viewer');
      const rows = page.getByRole('rowheader');
      await page.getByRole('link', { name: 'many-000000', exact: true }).waitFor();
      await page.getByRole('button', { name: 'Next page' }).click();
      await page.getByRole('link', { name: 'many-000050' }).waitFor();
      expect(await rows.count()).toBe(50);
      await page.getByLabel('Search').fill('MERCHANT 99999');
      await page.getByRole('link', { name: 'many-099999' }).waitFor();
      expect(await rows.count()).toBe(1);
      await page.getByLabel('Search').fill('');
      await page.getByLabel('Show').selectOption('With keys due');
      await page.getByRole('link', { name: 'many-025000' }).waitFor();
      expect(await rows.count()).toBe(4);
      await page.getByLabel('Show').selectOption('Inactive');
      await page.getByText('No account matches.').waitFor();
      expect(Math.max(...(await Promise.all(sizes)))).toBeLessThan(65_536);
    });
  });
});

/** Accounts `many-…`. Every 25,000th one has an API key that is due for rotation. */
const hundredThousand = `
  INSERT INTO envelope_sidecar.accounts
    SELECT 'many-' || lpad(i::text, 6, '0'), 'Merchant ' || i, true FROM generate_series(0, 99999) AS i;
  INSERT INTO envelope_sidecar.api_keys (key_id, account_id, prefix, hash, created_at)
    SELECT 'many-key-' || i, 'many-' || lpad(i::text, 6, '0'), 'sk_test_', sha256(i::text::bytea), '2025-01-01'
    FROM generate_series(0, 99999, 25000) AS i;`;

function actions(browser: TestBrowser, sidecar: () => ConsoleSidecar): void {
  test('an account is added, renamed, deactivated and activated, and the merchant notices', async () => {
    const { merchant, upstream, url } = sidecar();
    const page = await browser.open(`${url}#/accounts`);
    await signIn(page, 'admin');
    await addAccount(page, 'initech', 'Initech');
    await page.getByText('Account initech was added.').waitFor();
    await page.getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('Initech Payments');
    await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('heading', { name: 'Initech Payments' }).waitFor();
    const key = await issueKey(page);
    await expect.poll(async () => (await merchant.charge(key)).status).toBe(200);
    expect(upstream.seen.at(-1)?.headers).toMatchObject({ 'x-account-id': 'initech', 'x-environment': 'test' });

    await confirm(page, 'Deactivate');
    await page.getByText('This account is inactive: all its requests are refused.').waitFor();
    await expect.poll(async () => codeOf(await merchant.charge(key))).toBe('account_inactive');
    const seen = upstream.seen.length;
    await merchant.charge(key);
    expect(upstream.seen.length).toBe(seen);
    await page.getByRole('button', { name: 'Activate', exact: true }).click();
    await page.getByText('The account was activated.').waitFor();
    await expect.poll(async () => (await merchant.charge(key)).status).toBe(200);
  });

  test('an API key is issued, rotated with an overlap, and revoked', async () => {
    const { merchant, url } = sidecar();
    const page = await browser.open(`${url}#/accounts`);
    await signIn(page, 'operator');
    await addAccount(page, 'globex', 'Globex');
    await page.getByRole('button', { name: 'Issue key' }).click();
    const issue = page.getByRole('dialog', { name: 'Issue an API key' });
    await issue.getByLabel('Expires after').selectOption('180 days');
    await issue.getByRole('button', { name: 'Issue key' }).click();
    // A dialog that shows a secret once cannot be closed by mistake.
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    const key = await takeKey(page);
    expect(key).toMatch(/^sk_test_/);
    await expect.poll(async () => (await merchant.charge(key)).status).toBe(200);

    const row = page.getByRole('row').filter({ hasText: 'Secret' });
    await row.getByText('in 5 months').waitFor();
    const id = (await row.getByRole('rowheader').locator('code').textContent()) ?? '';
    await select(page, id, 'Rotate');
    await page.getByRole('dialog').getByRole('button', { name: 'Rotate' }).click();
    const successor = await takeKey(page);
    expect(successor).not.toBe(key);
    await expect.poll(async () => (await merchant.charge(successor)).status).toBe(200);
    const replaced = page.getByRole('row').filter({ has: page.getByText(id, { exact: true }) });
    await replaced.getByText('Replaced').waitFor();
    const isStillUsed = async (): Promise<boolean> => {
      expect((await merchant.charge(key)).status).toBe(200);
      return replaced.getByText('Replaced, still used').isVisible();
    };
    await expect.poll(isStillUsed, { timeout: 10_000, interval: 500 }).toBe(true);
    expect(await page.getByText('Replaced').count()).toBe(1);

    await select(page, id, 'Revoke');
    const revoke = page.getByRole('dialog', { name: `Revoke ${id}?` });
    await revoke.getByText(/Traffic: \d+ requests? in the last hour, the last/).waitFor();
    expect(await revoke.getByRole('textbox').count()).toBe(0);
    await revoke.getByRole('button', { name: 'Revoke' }).click();
    await page.getByText(`${id} was revoked.`).waitFor();
    await expect.poll(async () => codeOf(await merchant.charge(key))).toBe('invalid_api_key');
    expect((await merchant.charge(successor)).status).toBe(200);

    // The key was shown once. It is neither in the page any more nor in the storage of the browser.
    expect(await page.content()).not.toContain(successor);
    const storage = 'JSON.stringify([location.href, document.title, localStorage, sessionStorage])';
    expect(await page.evaluate(storage)).not.toMatch(/sk_test_/);
  });

  test('encryption is enabled and disabled and its credentials are replaced, each with a grace', async () => {
    const { merchant, upstream, url } = sidecar();
    const page = await browser.open(`${url}#/accounts`);
    await signIn(page, 'operator');
    await addAccount(page, 'umbrella', 'Umbrella');
    const key = await issueKey(page);
    await page.getByRole('link', { name: 'Encryption Settings' }).click();
    const toggle = page.getByRole('switch', { name: 'Encryption in Test' });
    const dialog = page.getByRole('dialog');

    // Enable encryption: plain requests are accepted during the grace period, whose end is moved and then set to now.
    await toggle.click();
    await dialog.getByLabel('Also accept plain requests for').selectOption('24 hours');
    await dialog.getByRole('button', { name: 'Enable' }).click();
    const first = await takeCredentials(page);
    await page.getByText('Plain requests are accepted too.').waitFor();
    await expect.poll(async () => (await merchant.sealed(key, first)).headers['envelope']).toBe('sealed');
    expect(opened(await merchant.sealed(key, first), first)).toBe('{"ok":true}');
    expect(upstream.seen.at(-1)?.body).toBe('{"amount":1000}');
    const environment = page.getByRole('region', { name: 'Test', exact: true });
    await environment.getByText('No API key has used it at this sidecar.').waitFor();
    expect((await merchant.charge(key)).body).toBe('{"ok":true}');
    const keyId = String(upstream.seen.at(-1)?.headers['x-api-key-id']);
    await environment.getByRole('listitem').filter({ hasText: keyId }).getByText('just now').waitFor();
    await page.getByText('Ends in 23 hours').waitFor();
    await page.getByRole('button', { name: 'Change the end' }).click();
    await dialog.getByLabel('The grace period ends in').selectOption('7 days');
    await dialog.getByRole('button', { name: 'Change the end' }).click();
    await page.getByText('Ends in 6 days').waitFor();
    await confirm(page, 'End now');
    await expect.poll(async () => codeOf(await merchant.charge(key))).toBe('envelope_required');
    // The next dialog offers a grace period only if the page knows that none is running.
    await page.getByText('Plain requests are accepted too.').waitFor({ state: 'hidden' });

    // Replace the credentials: the old ones work until the grace period ends.
    await confirm(page, 'Replace key and IV');
    const second = await takeCredentials(page);
    await page.getByText('The previous key and IV are accepted too.').waitFor();
    await expect.poll(async () => (await merchant.sealed(key, second)).headers['envelope-credentials']).toBe('current');
    expect(opened(await merchant.sealed(key, first), first)).toBe('{"ok":true}');
    await confirm(page, 'End now');
    await expect.poll(async () => codeOf(await merchant.sealed(key, first))).toBe('decryption_failed');
    expect(opened(await merchant.sealed(key, second), second)).toBe('{"ok":true}');
    await page.getByText('The previous key and IV are accepted too.').waitFor({ state: 'hidden' });

    // Disable encryption: envelopes are opened and their responses sealed during the grace period, and passed through afterwards.
    await toggle.click();
    await dialog.getByText('The key and the IV are deleted at once').waitFor();
    await dialog.getByLabel('Keep accepting envelopes for').selectOption('7 days');
    await dialog.getByText('Until the grace period ends, envelopes are still opened').waitFor();
    await dialog.getByRole('button', { name: 'Disable' }).click();
    await page.getByText('Encryption is disabled in Test.').waitFor();
    await expect.poll(async () => (await merchant.charge(key)).body).toBe('{"ok":true}');
    expect(opened(await merchant.sealed(key, second), second)).toBe('{"ok":true}');
    expect(upstream.seen.at(-1)?.body).toBe('{"amount":1000}');
    await confirm(page, 'End now');
    await expect.poll(async () => (await merchant.sealed(key, second)).headers['envelope']).toBe(undefined);
    expect(upstream.seen.at(-1)?.body).toMatch(/^{"data":"[0-9a-f]+"}$/);
    await page.getByText('Envelopes are still opened, and their responses sealed.').waitFor({ state: 'hidden' });

    // Enable encryption again, with new credentials and the other encoding.
    await toggle.click();
    await dialog.getByLabel('Responses are encoded as').selectOption('Base64');
    await dialog.getByRole('button', { name: 'Enable' }).click();
    const third = await takeCredentials(page);
    expect([first.key, second.key]).not.toContain(third.key);
    await expect.poll(async () => codeOf(await merchant.sealed(key, second))).toBe('decryption_failed');
    expect(opened(await merchant.sealed(key, third), third)).toBe('{"ok":true}');
  });
}

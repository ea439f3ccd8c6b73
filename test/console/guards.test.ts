import { expect, test } from 'vitest';
import { send } from '../support/client.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { describeWithChromium, useBrowser } from './browser.ts';
import { signIn, useConsole } from './sidecar.ts';
import { addAccount, confirm, issueKey, select, takeCredentials, takeKey } from './steps.ts';

describeWithChromium('what an operator must confirm', () => {
  describeWithPostgres('with the accounts in PostgreSQL', () => {
    const postgres = usePostgres();
    const browser = useBrowser();
    const sidecar = useConsole(async () => ({
      more: { accounts: { postgres: { url: await postgres.createDatabase(), masterKey: 'a'.repeat(64) } } },
    }));

    test('an unused test key is revoked with one click, a live one after the end of its id is typed', async () => {
      const page = await browser.open(`${sidecar().url}#/accounts`);
      await signIn(page, 'operator');
      await addAccount(page, 'initech', 'Initech');
      await issueKey(page);
      const name = async (): Promise<string> => (await page.getByRole('rowheader').locator('code').textContent()) ?? '';
      const unused = await name();
      await select(page, unused, 'Revoke');
      await page.getByText(`${unused} was revoked.`).waitFor();
      expect(await page.getByRole('dialog').count()).toBe(0);
      await page.getByText('No key is valid.').waitFor();

      await page.getByRole('button', { name: 'Issue key' }).click();
      const dialog = page.getByRole('dialog');
      expect(await dialog.getByLabel('Expires after').inputValue()).toBe('');
      await dialog.getByLabel('Environment').selectOption('Live');
      expect(await dialog.getByLabel('Expires after').inputValue()).toBe('180d');
      await dialog.getByLabel('Name').fill('Till 3');
      await dialog.getByRole('button', { name: 'Issue key' }).click();
      await takeKey(page);
      await page.getByRole('rowheader').filter({ hasText: 'Till 3' }).waitFor();
      const id = await name();
      await select(page, 'Till 3', 'Revoke');
      const submit = dialog.getByRole('button', { name: 'Revoke' });
      await dialog.getByText('Traffic: no request seen by this sidecar since it started.').waitFor();
      const typed = dialog.getByLabel(`Type the end of its id, ${id.slice(-4)}, to confirm`);
      await typed.fill(id.slice(-3));
      expect(await submit.isDisabled()).toBe(true);
      await typed.fill(id.slice(-4));
      await submit.click();
      await page.getByText(`${id} was revoked.`).waitFor();
    });

    test('deactivating a live account and disabling its encryption show its traffic and ask for its id', async () => {
      const { configure, upstream, url, serving } = sidecar();
      const environment = (host: string) => ({ upstream: upstream.origin, hosts: [host] });
      await configure({
        environments: { test: environment('sandbox.pay.example'), live: environment('api.pay.example') },
      });
      const page = await browser.open(`${url}#/accounts`);
      await signIn(page, 'admin');
      await addAccount(page, 'globex', 'Globex');
      await confirmWithoutId();
      await page.getByRole('button', { name: 'Issue key' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Environment').selectOption('Live');
      await dialog.getByRole('button', { name: 'Issue key' }).click();
      const key = await takeKey(page);
      await page.getByRole('link', { name: 'Encryption Settings' }).click();
      await page.getByRole('switch', { name: 'Encryption in Live' }).click();
      expect(await dialog.getByLabel('Also accept plain requests for').inputValue()).toBe('24h');
      await dialog.getByLabel('Also accept plain requests for').selectOption('no time: immediately');
      await dialog.getByText('Immediately: plain requests are refused as soon as you confirm.').waitFor();
      await dialog.getByLabel('Also accept plain requests for').selectOption('24 hours');
      await dialog.getByRole('button', { name: 'Enable' }).click();
      await takeCredentials(page);
      await confirm(page, 'End now');
      await page.getByText('The grace period has ended.').waitFor();

      const charge = { key, body: '{}', headers: { 'Content-Type': 'application/json', Host: 'api.pay.example' } };
      const seen = upstream.seen.length;
      expect((await send(serving, 'POST /api/s2s/charge', charge)).status).toBe(400);
      expect(upstream.seen.length).toBe(seen);
      await page.getByRole('switch', { name: 'Encryption in Live' }).click();
      await dialog.getByText(/Traffic: 1 request in the last hour, the last/).waitFor();
      expect(await dialog.getByLabel('Keep accepting envelopes for').inputValue()).toBe('24h');
      const disable = dialog.getByRole('button', { name: 'Disable' });
      expect(await disable.isDisabled()).toBe(true);
      await dialog.getByLabel('Type globex to confirm').fill('globex');
      await disable.click();
      await page.getByText('Encryption is disabled in Live.').waitFor();

      await page.getByRole('button', { name: 'Deactivate' }).click();
      await dialog.getByText(/Traffic: 1 request in the last hour/).waitFor();
      const deactivate = dialog.getByRole('button', { name: 'Deactivate' });
      expect(await deactivate.isDisabled()).toBe(true);
      await dialog.getByLabel('Type globex to confirm').fill('globex');
      await deactivate.click();
      await page.getByText('The account was deactivated.').waitFor();

      /**
       * Deactivates and reactivates the account. Without a valid live key, no live traffic can be affected, so the dialog does not ask for
       * the id.
       */
      async function confirmWithoutId(): Promise<void> {
        await page.getByRole('button', { name: 'Deactivate' }).click();
        await page.getByRole('dialog').getByText('no request seen by this sidecar').waitFor();
        await page.getByRole('dialog').getByRole('button', { name: 'Deactivate' }).click();
        await page.getByText('The account was deactivated.').waitFor();
        await page.getByRole('button', { name: 'Activate' }).click();
        await page.getByText('The account was activated.').waitFor();
      }
    });
  });
});

import { expect, test } from 'vitest';
import { Mount, mayMount } from '../support/mount.ts';
import { startUpstream } from '../support/upstream.ts';
import { describeWithChromium, useBrowser } from './browser.ts';
import { eventually, Merchant, opened } from './merchant.ts';
import { signIn, startConsole } from './sidecar.ts';

const key = 'sk_test_acmeacmeacmeacme';
const credentials = { key: 'k7Jq2vXw9RtB4mNz8LpC1sDfG5hYeU3a', iv: 'Zx9Qw3Er7Ty1Ui5O' };
const accounts = {
  accounts: [
    {
      id: 'acme',
      name: 'Acme Stores',
      keys: [{ id: 'sk', key, createdAt: '2026-11-01' }],
      encryption: { test: { enabled: true, ...credentials } },
    },
  ],
};

describeWithChromium('encryption settings in the console', () => {
  const browser = useBrowser();

  test('encryption is switched off with a grace, in which envelopes are still opened and sealed', async () => {
    const upstream = await startUpstream();
    const { serving, url } = await startConsole(upstream.origin, { accounts });
    const merchant = new Merchant(serving.port);
    const page = await browser.open(`${url}#/accounts/acme/encryption`);
    await signIn(page, 'operator');
    await page.getByRole('switch', { name: 'Encryption in Test' }).click();
    const dialog = page.getByRole('dialog', { name: 'Switch encryption off in Test' });
    await dialog.getByText('The key and the IV are deleted at once.').waitFor();
    await dialog.getByLabel('Envelopes are still accepted for').selectOption('7 days');
    await dialog.getByText('Until the grace ends, envelopes are still opened').waitFor();
    await dialog.getByRole('button', { name: 'Switch off' }).click();
    await page.getByText('Encryption is off in Test.').waitFor();
    await page.getByText('Ends in 6 days').waitFor();
    await eventually(async () => (await merchant.charge(key)).body).toBe('{"ok":true}');
    expect(opened(await merchant.sealed(key, credentials), credentials)).toBe('{"ok":true}');
    expect(upstream.seen.at(-1)?.body).toBe('{"amount":1000}');

    await page.getByRole('button', { name: 'End now' }).click();
    await page.getByRole('dialog').getByText('Envelopes are no longer opened, at once.').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'End now' }).click();
    await eventually(async () => (await merchant.sealed(key, credentials)).headers['envelope']).toBe(undefined);
    expect(upstream.seen.at(-1)?.body).toMatch(/^{"data":"[0-9a-f]+"}$/);
  }, 60_000);

  test('a change is told to be in force, or stored and not in force yet', async () => {
    const { url } = await startConsole('http://127.0.0.1:1', { accounts });
    const page = await browser.open(`${url}#/accounts/acme`);
    await signIn(page, 'operator');
    const rename = async (name: string): Promise<void> => {
      await page.getByRole('button', { name: 'Rename' }).click();
      await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill(name);
      await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
    };
    await rename('Acme Ltd');
    await page.getByRole('status').getByText('The account was renamed. In force.').waitFor();
    // As if another sidecar's file were slow to arrive.
    await page.route('**/rename', async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...((await response.json()) as object), in_force: false } });
    });
    await rename('Acme Inc');
    await page.getByRole('status').getByText('Stored, but not in force yet').waitFor();
  }, 60_000);

  test.skipIf(!mayMount)(
    'offers no change of a file that cannot be written, says why, and refuses a late one plainly',
    async () => {
      const mount = new Mount({ 'accounts.yaml': accounts }, 'size=64k');
      const { url } = await startConsole('http://127.0.0.1:1', {
        more: { accounts: { file: mount.file('accounts.yaml') } },
      });
      const page = await browser.open(`${url}#/accounts/acme`);
      await signIn(page, 'operator');
      await page.getByRole('button', { name: 'Rename' }).click();
      await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('Other');
      mount.protect();
      browser.expectComplaint(/409/);
      await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
      await page.getByRole('alert').getByText('This sidecar cannot write the accounts.').waitFor();
      await page.reload();
      await page.getByText('This sidecar cannot write the accounts’ file.').waitFor();
      await page.getByRole('heading', { name: 'Acme Stores' }).waitFor();
      for (const name of ['Rename', 'Deactivate', 'Issue key', 'Revoke sk']) {
        expect(await page.getByRole('button', { name, exact: true }).count()).toBe(0);
      }
      await page.getByRole('link', { name: 'Encryption Settings' }).click();
      expect(await page.getByRole('switch', { name: 'Encryption in Test' }).isDisabled()).toBe(true);
    },
    60_000,
  );
});

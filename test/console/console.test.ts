import { seriousViolations } from './axe.ts';
import { expect, test } from 'vitest';
import { describeWithChromium, useBrowser } from './browser.ts';
import { operators, signIn, startConsole, type Operator } from './sidecar.ts';

const accounts = {
  accounts: [
    {
      id: 'acme',
      name: 'Acme Stores',
      keys: [
        { id: 'old', key: 'sk_test_acmeacmeacmeacme', createdAt: '2025-01-01' },
        { id: 'gone', key: 'sk_test_gonegonegonegone', createdAt: '2025-01-01', revokedAt: '2025-02-01' },
      ],
      encryption: {
        test: {
          enabled: true,
          key: 'k7Jq2vXw9RtB4mNz8LpC1sDfG5hYeU3a',
          iv: 'Zx9Qw3Er7Ty1Ui5O',
          previous: { key: 'p4Wn6bVc2KsH8dTf0QaZ5xJm3GyRu7Le', iv: 'Bn4Mx8Cz1Vl6Kj3H', until: '2099-01-01' },
        },
      },
    },
    { id: 'globex', name: 'Globex', active: false },
  ],
};

describeWithChromium('the console', () => {
  const browser = useBrowser();

  test('shows a role what it may do, and a merchant its own account alone', async () => {
    const { url } = await startConsole('http://127.0.0.1:1', { accounts });
    const offered = async (operator: Operator): Promise<number[]> => {
      const page = await browser.open(`${url}#/accounts/acme`);
      await signIn(page, operator);
      await page.getByRole('heading', { name: 'Acme Stores' }).waitFor();
      const buttons = ['Deactivate', 'Issue key', 'Rotate old', 'Revoke old'];
      const counts = [];
      for (const name of buttons) counts.push(await page.getByRole('button', { name, exact: true }).count());
      counts.push(await page.getByRole('link', { name: 'Accounts' }).count());
      return counts;
    };
    expect(await offered('viewer')).toEqual([0, 0, 0, 0, 2]);
    expect(await offered('operator')).toEqual([1, 1, 1, 1, 2]);
    expect(await offered('admin')).toEqual([1, 1, 1, 1, 2]);
    expect(await offered('merchant')).toEqual([1, 1, 1, 1, 0]);
    const page = await browser.open(`${url}#/accounts/globex`);
    await signIn(page, 'merchant');
    await page.getByRole('heading', { name: 'Acme Stores' }).waitFor();
  }, 120_000);

  test('refuses a wrong token, and says when a session has ended', async () => {
    const { url, configure } = await startConsole('http://127.0.0.1:1', { accounts });
    const page = await browser.open(url);
    browser.expectComplaint(/401/);
    await page.getByLabel('Token').fill('no-token-of-this-sidecar-at-all-0123456789');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('This token is not one of this sidecar’s.').waitFor();
    await signIn(page, 'viewer');
    await page.getByText('Signed in as vera, viewer').waitFor();
    await page.reload();
    await page.getByRole('link', { name: 'Accounts' }).click();
    await page.getByRole('link', { name: 'acme' }).click();
    await page.getByRole('heading', { name: 'Acme Stores' }).waitFor();
    configure({ operators: { host: '127.0.0.1', port: Number(new URL(url).port), tokens: [operators.admin] } });
    await page.getByText('Your session has ended. Sign in again to go on.').waitFor();
    expect(await page.getByText('Acme Stores').count()).toBe(0);
    await signIn(page, 'admin');
    await page.getByRole('heading', { name: 'Acme Stores' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Token').waitFor();
    expect(await page.getByText('Your session has ended').count()).toBe(0);
  }, 120_000);

  test('two windows that change the same account see each other’s changes, and a late one is refused', async () => {
    const { url } = await startConsole('http://127.0.0.1:1', { accounts });
    const one = await browser.open(`${url}#/accounts/acme/keys`);
    await signIn(one, 'operator');
    const other = await browser.open(`${url}#/accounts/acme/keys`, { beside: one });
    for (const page of [one, other]) {
      await page.getByRole('button', { name: 'Revoke old' }).click();
      await page.getByLabel('Type old to confirm').fill('old');
    }
    await one.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await one.getByText('This account has no valid API keys.').waitFor();
    browser.expectComplaint(/409/);
    await other.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await other
      .getByRole('alert')
      .getByText(/revoked already/)
      .waitFor();
    await other.getByRole('button', { name: 'Cancel' }).click();
    await other.getByText('This account has no valid API keys.').waitFor();
    await other.getByRole('button', { name: 'Deactivate' }).click();
    await other.getByRole('dialog').getByRole('button', { name: 'Deactivate' }).click();
    await one.getByText('This account is inactive: all its requests are refused.').waitFor();
  }, 120_000);

  test('says that the sidecar is away, keeps what it shows, and goes on when it is back', async () => {
    const { url } = await startConsole('http://127.0.0.1:1', { accounts });
    const page = await browser.open(`${url}#/accounts/acme`);
    await signIn(page, 'operator');
    await page.getByRole('heading', { name: 'Acme Stores' }).waitFor();
    browser.expectComplaint(/ERR_INTERNET_DISCONNECTED/);
    await page.context().setOffline(true);
    await page.getByText('The sidecar cannot be reached. What you see may be out of date').waitFor();
    expect(await page.getByRole('heading', { name: 'Acme Stores' }).count()).toBe(1);
    await page.getByRole('button', { name: 'Deactivate' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Deactivate' }).click();
    await page.getByRole('alert').getByText('The sidecar cannot be reached. Try again.').waitFor();
    await page.context().setOffline(false);
    await page.getByRole('dialog').getByRole('button', { name: 'Deactivate' }).click();
    await page.getByText('The account was deactivated.').waitFor();
    await page.getByText('What you see may be out of date').waitFor({ state: 'detached' });
  }, 120_000);

  test('can be used by keyboard alone', async () => {
    const { url } = await startConsole('http://127.0.0.1:1', { accounts });
    const page = await browser.open(url);
    await page.getByLabel('Token').waitFor();
    await page.keyboard.type(operators.operator.token);
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
    await page.goto(`${url}#/accounts/acme/keys`);
    const rotate = page.getByRole('button', { name: 'Rotate old' });
    await rotate.waitFor();
    await rotate.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(await rotate.evaluate((element) => element === element.ownerDocument.activeElement)).toBe(true);
  }, 120_000);

  test.each([
    ['light', 1_280],
    ['dark', 1_280],
    ['light', 360],
    ['dark', 1_600],
  ] as const)(
    'is accessible: axe finds nothing serious, %s, %i pixels wide, and nothing is cut off',
    async (colorScheme, width) => {
      const { url } = await startConsole('http://127.0.0.1:1', { accounts });
      const page = await browser.open(url, { colorScheme, width });
      await page.getByLabel('Token').waitFor();
      const found = [await seriousViolations(page)];
      await signIn(page, 'admin');
      for (const place of [
        'accounts',
        'accounts/acme/keys',
        'accounts/acme/encryption',
        'accounts/acme/activity',
        'rotation',
        'audit',
      ]) {
        await page.goto(`${url}#/${place}`);
        await page.getByRole('heading', { level: 1 }).waitFor();
        await page.waitForLoadState('networkidle');
        found.push(await seriousViolations(page));
        expect([place, await page.evaluate('document.documentElement.scrollWidth')]).toEqual([place, width]);
      }
      await page.goto(`${url}#/accounts/acme/encryption`);
      await page.getByRole('button', { name: 'Replace key and IV' }).click();
      await page.getByRole('dialog').waitFor();
      found.push(await seriousViolations(page));
      expect(found.flat()).toEqual([]);
    },
    120_000,
  );
});

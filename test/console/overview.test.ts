import { expect, test } from 'vitest';
import { createAuthority } from '../support/certificates.ts';
import { describeWithChromium, useBrowser } from './browser.ts';
import { operators, signIn, useConsole } from './sidecar.ts';

const key = 'sk_test_acmeacmeacmeacme';
const accounts = {
  accounts: [
    {
      id: 'acme',
      name: 'Acme Stores',
      keys: [{ id: 'old', key, createdAt: '2025-01-01' }],
      encryption: {
        test: { enabled: true, key: 'k7Jq2vXw9RtB4mNz8LpC1sDfG5hYeU3a', iv: 'Zx9Qw3Er7Ty1Ui5O' },
        live: {
          enabled: true,
          key: 'p4Wn6bVc2KsH8dTf0QaZ5xJm3GyRu7Le',
          iv: 'Bn4Mx8Cz1Vl6Kj3H',
          previous: { until: '2099-01-01' },
        },
      },
    },
  ],
};

describeWithChromium('the overview in the console', () => {
  const browser = useBrowser();
  const sidecar = useConsole(() => ({ accounts }));

  test('shows the state of the sidecar, refusals, and why a configuration is not in force', async () => {
    const { url, merchant, folder, configure } = sidecar();
    for (let i = 0; i < 3; i += 1) expect((await merchant.charge(key)).status).toBe(400);
    const page = await browser.open(url);
    await page.clock.install();
    await signIn(page, 'viewer');
    await page.getByText('Accepting requests').waitFor();
    await page.getByRole('img', { name: 'Refusals' }).waitFor();
    await page.getByText('envelope_required 3').waitFor();
    await page.getByText('Encryption is enabled, but the request was plain JSON').waitFor();
    const graces = page.getByRole('region', { name: 'Running graces' }).first();
    await graces.getByRole('cell', { name: 'Plain requests are accepted too.' }).waitFor();
    await graces.getByText('Use is not recorded').waitFor();
    await page
      .getByRole('region', { name: 'Accounts with the most failures' })
      .getByRole('link', { name: 'acme' })
      .first()
      .waitFor();
    /** Waits up to ten seconds, for a page that refreshes itself. */
    const asksAgain = async (found: string): Promise<void> => {
      await expect
        .poll(
          async () => {
            await page.clock.fastForward(10_000);
            return page.getByText(found).isVisible();
          },
          { timeout: 15_000, interval: 200 },
        )
        .toBe(true);
    };
    const pictures = process.env['CONSOLE_PICTURES'];
    if (pictures !== undefined) await page.screenshot({ path: `${pictures}/0-overview.png` });
    await configure({
      environments: { test: { upstream: { url: 'https://127.0.0.1:1', ca: createAuthority().cert } } },
    });
    await asksAgain('environments.test.upstream.ca');
    await page.getByText('in 1 day').waitFor();
    folder.write({ 'accounts.yaml': 'accounts: [{ id: acme }]' });
    await page.getByRole('link', { name: 'System' }).click();
    await asksAgain('The current content of the files is not in force:');
    await page.getByText('No change is waiting for a restart.').waitFor();
    const setting = (name: string) => page.getByRole('row').filter({ has: page.getByText(name, { exact: true }) });
    await setting('limits.requestBody').getByText('1MiB', { exact: true }).waitFor();
    await setting('operators.tokens[0].token').getByText('Secret, not shown').waitFor();
    await setting('listen.port').getByText('After a restart').waitFor();
    expect(await page.content()).not.toContain(operators.viewer.token);
    await configure({ limits: { header: '8KiB' }, listen: { host: '127.0.0.1', port: 0 } });
    await asksAgain('Changed in the file, but not in force until a restart:');
    await setting('limits.header').getByText('16KiB', { exact: true }).waitFor();
  });
});

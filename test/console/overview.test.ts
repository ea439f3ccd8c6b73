import { expect, test } from 'vitest';
import { startUpstream } from '../support/upstream.ts';
import { seriousViolations } from './axe.ts';
import { describeWithChromium, useBrowser } from './browser.ts';
import { Merchant } from './merchant.ts';
import { operators, signIn, startConsole } from './sidecar.ts';

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

  test('shows how the sidecar is, what was refused, and why a configuration is not in force', async () => {
    const upstream = await startUpstream();
    const { url, serving, folder, configure } = await startConsole(upstream.origin, { accounts });
    for (let i = 0; i < 3; i += 1) expect((await new Merchant(serving.port).charge(key)).status).toBe(400);
    const page = await browser.open(url);
    await signIn(page, 'viewer');
    await page.getByText('Takes requests').waitFor();
    await page.getByRole('img', { name: 'Refusals' }).waitFor();
    await page.getByText('envelope_required 3').waitFor();
    await page.getByText('Encryption is on, but the request was plain JSON').waitFor();
    const graces = page.getByRole('region', { name: 'Open graces' }).first();
    await graces.getByRole('cell', { name: 'Plain requests are accepted too.' }).waitFor();
    await graces.getByText('Use is not recorded').waitFor();
    await page
      .getByRole('region', { name: 'Accounts with the most failures' })
      .getByRole('link', { name: 'acme' })
      .first()
      .waitFor();
    expect(await seriousViolations(page)).toEqual([]);
    const pictures = process.env['CONSOLE_PICTURES'];
    if (pictures !== undefined) await page.screenshot({ path: `${pictures}/0-overview.png` });
    folder.write({ 'accounts.yaml': 'accounts: [{ id: acme }]' });
    await page.getByRole('link', { name: 'System' }).click();
    await page.getByText('What the files say now is not in force:').waitFor();
    await page.getByText('No change is waiting for a restart.').waitFor();
    const setting = (name: string) => page.getByRole('row').filter({ has: page.getByText(name, { exact: true }) });
    await setting('limits.requestBody').getByText('1MiB', { exact: true }).waitFor();
    await setting('operators.tokens[0].token').getByText('Secret, not shown').waitFor();
    await setting('listen.port').getByText('After a restart').waitFor();
    expect(await page.content()).not.toContain(operators.viewer.token);
    configure({ limits: { header: '8KiB' }, listen: { host: '127.0.0.1', port: 0 } });
    await page.getByText('Changed in the file, but not in force until a restart:').waitFor();
    await setting('limits.header').getByText('16KiB', { exact: true }).waitFor();
    expect(await seriousViolations(page)).toEqual([]);
  }, 120_000);
});

import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createAuthority } from '../support/certificates.ts';
import { send } from '../support/client.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
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
    await page.getByText('Serving. One thing needs your attention: 1 key is due for rotation').waitFor();
    await page.getByRole('button', { name: 'envelope_required 3' }).waitFor();
    await page.getByText('Encryption is enabled, but the request was plain JSON').waitFor();
    const graces = page.getByRole('region', { name: 'Running grace periods' });
    await graces.getByRole('cell', { name: 'Plain requests are accepted too.' }).waitFor();
    await graces.getByText('Use is not recorded').waitFor();
    await page
      .getByRole('region', { name: 'Most refused accounts, last ten minutes' })
      .getByRole('link', { name: 'acme' })
      .first()
      .waitFor();
    /** Moves the page's clock forward until the page, which refreshes itself, shows this text. */
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
    await configure({
      environments: { test: { upstream: { url: 'https://127.0.0.1:1', ca: createAuthority().cert } } },
    });
    await asksAgain('environments.test.upstream.ca');
    await page.getByText('in 1 day').waitFor();
    await page.getByText('Serving. 2 things need your attention: certificate').waitFor();
    folder.write({ 'accounts.yaml': 'accounts: [{ id: acme }]' });
    await page.getByRole('link', { name: 'System' }).click();
    await page.getByText('Accepting requests').waitFor();
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

  test('counts requests by outcome over an hour and a day, by environment, and filters who is refused by a code', async () => {
    const { url, merchant, configure, folder, upstream, serving } = sidecar();
    folder.write({ 'accounts.yaml': accounts });
    await configure({});
    // Send all requests within one minute, which must not be over when the chart is checked.
    const left = 60_000 - (Date.now() % 60_000);
    if (left < 15_000) await sleep(left);
    const seen = upstream.seen.length;
    expect((await merchant.charge('sk_test_unknownunknownunknown')).status).toBe(401);
    expect(upstream.seen.length).toBe(seen);
    const plain = { key, body: '{}', headers: { 'Content-Type': 'application/json' } };
    expect((await send(serving, 'POST /api/v1/transactions/initialize', plain)).status).toBe(200);
    for (let i = 0; i < 3; i += 1) expect((await merchant.charge(key)).status).toBe(400);
    const page = await browser.open(url);
    await signIn(page, 'viewer');
    const legend = page.locator('figcaption');
    const chart = page.getByRole('img', { name: 'Requests by outcome' });
    await legend.getByText(/served [1-9]/).waitFor();
    await legend.getByText(/refused [2-9]/).waitFor();
    // The page above the chart may grow at any time, which moves the chart away from the pointer.
    await chart.hover();
    await chart.focus();
    for (let i = 0; i < 60; i += 1) await page.keyboard.press('ArrowRight');
    await page.mouse.move(0, 0);
    await chart
      .getByRole('status')
      .getByText(/served \d/)
      .waitFor();
    await chart.getByText(/p99 [0-9.]+ ms/).waitFor();
    // The minute in progress is drawn only as a pale bar, and no line reaches it.
    expect(await page.locator('.chart .open rect').count()).toBeGreaterThan(0);
    expect(await page.locator('.chart path.p99').getAttribute('d')).toBe('');

    await page.getByRole('button', { name: '24 h' }).click();
    await page.getByRole('heading', { name: 'Requests per 15 minutes' }).waitFor();
    await page.getByRole('button', { name: 'Live' }).click();
    await legend.getByText('refused 0').waitFor();
    await page.getByRole('button', { name: 'Test' }).click();
    const refused = page.getByRole('region', { name: 'Most refused accounts, last ten minutes' });
    await refused.getByRole('link', { name: 'acme' }).waitFor();
    await page.getByRole('button', { name: /^invalid_api_key/ }).click();
    await refused.getByText('Nobody was refused in the last ten minutes.').waitFor();
    await page.getByRole('button', { name: /^envelope_required/ }).click();
    await refused.getByRole('link', { name: 'acme' }).waitFor();
    expect(page.url()).toContain('span=24h&environment=test&code=envelope_required');
    await page.reload();
    await page.getByRole('button', { name: /^envelope_required/, pressed: true }).waitFor();
    for (const width of [360, 768, 1_280, 1_920]) {
      await page.setViewportSize({ width, height: 800 });
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
    }
  });
});

describeWithChromium('the overview of a sidecar whose database is away', () => {
  describeWithPostgres('with the accounts in PostgreSQL', () => {
    const postgres = usePostgres();
    const browser = useBrowser();
    const sidecar = useConsole(async () => {
      const url = await postgres.createDatabase();
      return { more: { accounts: { postgres: { url, masterKey: 'a'.repeat(64), staleFor: '2h' } } } };
    });

    test('says so, and until when cached keys keep working', async () => {
      const page = await browser.open(sidecar().url);
      await signIn(page, 'viewer');
      await page.getByText('Serving. Nothing needs your attention.').waitFor();
      // The page may request lists while the database is away, and then gets a 503.
      browser.expectComplaint(/503/);
      await postgres.stop();
      const banner = page.getByRole('status').filter({ hasText: 'The database cannot be reached.' });
      await banner.getByText(/Cached keys keep working until .* UTC \(in 1 hour\)/).waitFor({ timeout: 30_000 });
    });
  });
});

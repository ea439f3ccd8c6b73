import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { createAuthority } from '../support/certificates.ts';
import { violationsOf } from './axe.ts';
import { describeWithChromium, useBrowser } from './browser.ts';
import { codeOf } from './merchant.ts';
import { operators, signIn, useConsole } from './sidecar.ts';

const key = 'sk_test_acmeacmeacmeacme';
const soon = new Date(Date.now() + 86_400_000).toISOString();
/** An id and a name of the maximum length, without a place where a line may break. */
const long = { id: 'm'.repeat(64), name: 'Rechtsschutzversicherungsgesellschaft'.repeat(5) };
const encryption = {
  enabled: true,
  key: 'p4Wn6bVc2KsH8dTf0QaZ5xJm3GyRu7Le',
  iv: 'Bn4Mx8Cz1Vl6Kj3H',
  createdAt: '2025-01-01',
  previous: { until: '2099-01-01' },
};
const longKey = `sk_test_${'long'.repeat(4)}`;
const accounts = {
  accounts: [
    {
      ...long,
      keys: [
        { id: 'k'.repeat(64), name: long.name, key: longKey, createdAt: '2025-01-01' },
        { id: 'p'.repeat(64), key: `pk_live_${'long'.repeat(4)}`, createdAt: '2025-01-01', expiresAt: soon },
      ],
      encryption: { test: encryption },
    },
    {
      id: 'acme',
      name: 'Acme Stores',
      keys: [
        { id: 'old', key, createdAt: '2025-01-01' },
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
    { id: 'globex', name: 'Globex' },
  ],
};

/** Each screen of an operator, with the text that shows that it is complete. */
const screens: readonly (readonly [place: string, shown: RegExp])[] = [
  ['overview', /Most refused accounts/],
  ['accounts', /Acme Stores/],
  [`accounts/${long.id}/keys`, /Due/],
  [`accounts/${long.id}/keys?key=${'p'.repeat(64)}`, /This key is valid in Live/],
  [`accounts/${long.id}/encryption`, /Plain requests are accepted too/],
  [`accounts/${long.id}/activity`, /renamed m+/],
  ['rotation', /Running grace periods/],
  ['audit', /renamed m+/],
  ['system', /limits\.requestBody/],
  ['nothing', /There is no such page/],
  ['accounts/nobody', /There is no such account/],
];

describeWithChromium('every screen', () => {
  const browser = useBrowser();
  const sidecar = useConsole((upstream) => ({
    accounts,
    more: {
      environments: {
        test: { hosts: ['127.0.0.1'], upstream },
        live: {
          hosts: [`${'long-'.repeat(12)}.${'name-'.repeat(12)}.example`],
          upstream: { url: 'https://127.0.0.1:1', ca: createAuthority().cert },
        },
      },
    },
  }));

  test('is accessible and fits: axe finds nothing, dark and light, at four widths, with the longest names', async () => {
    const { merchant, url } = sidecar();
    for (const each of [key, longKey]) await merchant.charge(each);
    expect(codeOf(await merchant.charge(longKey, '{"data":"00"}'))).toBe('decryption_failed');
    const page = await browser.open(url);
    browser.expectComplaint(/404/);
    await page.getByLabel('Token').waitFor();
    await expectAccessible(page, 'sign-in');
    await signIn(page, 'admin');
    await page.goto(`${url}#/accounts/${long.id}`);
    await page.getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill(`${long.name}AG`);
    await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
    await page.getByText('The account was renamed.').waitFor();
    await expectAccessible(page, 'a change was made');
    for (const [place, shown] of screens) {
      await page.goto(`${url}#/${place}`);
      await page.getByText(shown).first().waitFor();
      await expectAccessible(page, place);
    }
    await page.goto(`${url}#/accounts/acme/encryption`);
    await page.getByRole('button', { name: 'Replace key and IV' }).click();
    await page.getByRole('dialog').waitFor();
    await expectAccessible(page, 'a dialog');
  });

  test('shows all of a menu, above its button if there is no room below', async () => {
    const page = await browser.open(`${sidecar().url}#/accounts/acme/keys`, { height: 300 });
    await signIn(page, 'operator');
    await page.getByRole('button', { name: 'Actions for old' }).click();
    const menu = await page.locator('ul.menu:popover-open').boundingBox();
    expect(menu?.y).toBeGreaterThanOrEqual(0);
    expect((menu?.y ?? 0) + (menu?.height ?? 0)).toBeLessThanOrEqual(300);
  });

  test.each(['scroll', 'resize'])('closes a menu on a %s, because it does not move with its button', async (event) => {
    const page = await browser.open(`${sidecar().url}#/accounts/acme/keys`, { height: 300 });
    await signIn(page, 'operator');
    await page.getByRole('button', { name: 'Actions for old' }).click();
    await page.locator('ul.menu:popover-open').waitFor();
    if (event === 'scroll') await page.evaluate('window.scrollBy(0, 1)');
    else await page.setViewportSize({ width: 900, height: 300 });
    await page.locator('ul.menu:popover-open').waitFor({ state: 'detached' });
  });

  test('is usable by keyboard alone: encryption is enabled, the key copied, the session ended', async () => {
    const { merchant, url } = sidecar();
    const page = await browser.open(`${url}#/accounts`);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByLabel('Token').waitFor();
    await page.keyboard.type(operators.operator.token);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Accounts' }).waitFor();

    await tabTo(page, 'Search');
    await page.keyboard.type('globex');
    await page.getByRole('link', { name: 'acme' }).waitFor({ state: 'detached' });
    await tabTo(page, 'globex');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Globex' }).waitFor();
    await tabTo(page, 'Issue key');
    await page.keyboard.press('Enter');
    await tabTo(page, 'Issue key');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'The new API key' }).waitFor();
    await tabTo(page, 'Copy: API key');
    await page.keyboard.press('Enter');
    const issued = await clipboard(page);
    await tabTo(page, 'Done');
    await page.keyboard.press('Enter');
    await expectFocus(page, 'Issue key');

    await tabTo(page, 'Encryption Settings');
    await page.keyboard.press('Enter');
    await tabTo(page, 'Encryption in Test');
    await page.keyboard.press('Space');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await expectFocus(page, 'Encryption in Test');
    await page.keyboard.press('Space');
    await tabTo(page, 'Enable');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: /The new key and IV/ }).waitFor();
    await tabTo(page, 'Copy: Key');
    await page.keyboard.press('Enter');
    const aesKey = await clipboard(page);
    await tabTo(page, 'Copy: IV');
    await page.keyboard.press('Enter');
    const iv = await clipboard(page);
    await tabTo(page, 'Done');
    await page.keyboard.press('Enter');
    await expectFocus(page, 'Encryption in Test');
    await expect
      .poll(async () => (await merchant.sealed(issued, { key: aesKey, iv })).headers['envelope'], { timeout: 10_000 })
      .toBe('sealed');

    await tabTo(page, 'Sign out');
    await page.keyboard.press('Enter');
    await page.getByLabel('Token').waitFor();
  });
});

/** Lists the tables that are wider than the space for them. */
const cutOff = `[...document.querySelectorAll('.scroll')]
  .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
  .map(({ ariaLabel, scrollWidth }) => ariaLabel + ' ' + scrollWidth)`;

/** Lists the ids that take more than one line, in table cells and in errors, but not in sentences. */
const brokenIds = `[...document.querySelectorAll('.scroll :is(th, td:not(.wide)) .id, .hint .id')]
  .filter((id) => id.offsetHeight > 1.5 * parseFloat(getComputedStyle(id).lineHeight))
  .map(({ textContent }) => textContent)`;

/** Checks the screen in both themes and at each width. Nothing may scroll sideways, not even a table, and no id in a table may break. */
async function expectAccessible(page: Page, screen: string): Promise<void> {
  for (const [width, theme, otherTheme] of [
    [360, 'dark', 'light'],
    [768, 'light', 'dark'],
    [1_280, 'dark', 'light'],
    [1_920, 'light', 'dark'],
  ] as const) {
    await page.setViewportSize({ width, height: 800 });
    expect([screen, await page.evaluate('document.documentElement.scrollWidth')]).toEqual([screen, width]);
    expect([screen, width, await page.evaluate(cutOff)]).toEqual([screen, width, []]);
    expect([screen, width, await page.evaluate(brokenIds)]).toEqual([screen, width, []]);
    await page.emulateMedia({ colorScheme: theme });
    expect([screen, width, theme, await violationsOf(page)]).toEqual([screen, width, theme, []]);
    // Themes differ only in their colours, so only the contrast is checked again.
    await page.emulateMedia({ colorScheme: otherTheme });
    const found = await violationsOf(page, 'color-contrast');
    expect([screen, width, otherTheme, found]).toEqual([screen, width, otherTheme, []]);
  }
}

/** The name of the element with the focus, and whether the focus is visible. */
const focused = `(() => {
  const element = document.activeElement;
  // Between the last control and the first.
  if (element === document.body) return { name: '', seen: true };
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  const name = element.getAttribute('aria-label') ?? element.labels?.[0]?.textContent ?? element.textContent;
  return { name, seen: outlineStyle !== 'none' && parseFloat(outlineWidth) > 0 };
})()`;

/** Presses Tab until the element with this name has the focus. The focus must be visible at every step. */
async function tabTo(page: Page, name: string): Promise<void> {
  const passed: string[] = [];
  do {
    await page.keyboard.press('Tab');
    const now = (await page.evaluate(focused)) as { readonly name: string; readonly seen: boolean };
    if (passed.push(now.name) > 100) throw new Error(`Tab does not lead to ${name}: ${passed.join(', ')}`);
    expect([now.name, now.seen]).toEqual([now.name, true]);
  } while (passed.at(-1) !== name);
}

async function expectFocus(page: Page, name: string): Promise<void> {
  await expect.poll(() => page.evaluate(focused)).toMatchObject({ name });
}

async function clipboard(page: Page): Promise<string> {
  await expect.poll(() => page.evaluate('navigator.clipboard.readText()')).not.toBe('');
  const text = (await page.evaluate('navigator.clipboard.readText()')) as string;
  await page.evaluate('navigator.clipboard.writeText("")');
  return text;
}

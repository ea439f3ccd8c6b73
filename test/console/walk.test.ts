import { mkdirSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { describeWithChromium, useBrowser } from './browser.ts';
import { fill, fillable } from './filled.ts';
import { codeOf, opened } from './merchant.ts';
import { signIn, useConsole } from './sidecar.ts';
import { addAccount, confirm, issueKey, takeCredentials } from './steps.ts';

/** `CONSOLE_PICTURES=docs/console npx vitest run test/console/walk.test.ts` renews the pictures of docs/console.md. */
const isRenewing = process.env['CONSOLE_PICTURES'] !== undefined;
const pictures = process.env['CONSOLE_PICTURES'] ?? mkdtempSync(join(tmpdir(), 'console-pictures-'));

/** The pictures of a sidecar with a day of traffic. */
const filledScreens = [
  ['0-overview', 'overview?span=24h'],
  ['2-accounts', 'accounts'],
  ['3-api-keys', 'accounts/aberdeen-books/keys'],
  ['9-rotation', 'rotation'],
  ['10-audit', 'audit'],
  ['11-phone', 'accounts/aberdeen-books/keys', 390],
] as const;

const masterKey = 'a'.repeat(64);

/** The time from entering the address to the first paint of the overview, in milliseconds: the shortest of ten. */
async function firstScreen(page: Page): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < 10; i += 1) {
    await page.reload();
    await page.getByText('Serving.').waitFor();
    await sleep(100);
    times.push((await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")) as number);
  }
  return Math.round(Math.min(...times));
}

describeWithChromium('with the console alone', () => {
  describeWithPostgres('with the accounts in PostgreSQL', () => {
    const postgres = usePostgres();
    const browser = useBrowser();
    const sidecar = useConsole(
      async (upstream) => ({
        more: {
          accounts: { postgres: { url: await postgres.createDatabase(), masterKey } },
          ...(isRenewing && { environments: fillable.environments(upstream) }),
        },
      }),
      isRenewing ? fillable : {},
    );

    test('encryption is enabled for a merchant, credentials are handed over and replaced, the old ones fall out of use, and the grace ends', async () => {
      mkdirSync(pictures, { recursive: true });
      const { merchant, upstream, url } = sidecar();
      if (isRenewing) await fill(sidecar());
      const walked = await browser.open(url, { width: 1_280, height: 860 });
      const page = walked;
      const picture = async (name: string, page = walked): Promise<void> => {
        await page.mouse.move(0, 0);
        // Hide the message about the last change, because it covers other elements.
        const hideNotice = (hidden: boolean) => page.evaluate(`document.querySelector('.notice').hidden = ${hidden}`);
        await hideNotice(true);
        await page.screenshot({ path: join(pictures, `${name}.png`), animations: 'disabled' });
        await hideNotice(false);
      };
      await page.getByLabel('Token').waitFor();
      await picture('1-sign-in');
      await signIn(page, 'operator');
      // This is a figure for docs/console.md. It is not tested, because it depends on the machine.
      if (isRenewing) console.log(`first screen: ${await firstScreen(page)} ms`);
      await page.clock.install();

      await page.getByRole('link', { name: 'Accounts' }).click();
      for (const [id, name] of [
        ['globex', 'Globex'],
        ['initech', 'Initech Payments'],
        ['acme', 'Acme Stores'],
      ] as const) {
        await addAccount(page, id, name);
        if (id !== 'acme') await page.getByRole('link', { name: 'Accounts' }).first().click();
      }
      const key = await issueKey(page);
      await expect.poll(async () => (await merchant.charge(key)).status).toBe(200);

      // Enable encryption, with a grace period for plaintext.
      await page.getByRole('link', { name: 'Encryption Settings' }).click();
      await page.getByRole('switch', { name: 'Encryption in Test' }).click();
      await page.getByLabel('Also accept plain requests for').selectOption('24 hours');
      await picture('4-enable');
      await page.getByRole('button', { name: 'Enable' }).click();
      await page.getByRole('dialog', { name: /The new key and IV/ }).waitFor();
      await picture('5-key-and-iv');
      const first = await takeCredentials(page);
      await page.getByText('Plain requests are accepted too.').waitFor();
      await expect.poll(async () => (await merchant.sealed(key, first)).headers['envelope']).toBe('sealed');
      expect(opened(await merchant.sealed(key, first), first)).toBe('{"ok":true}');
      expect(upstream.seen.at(-1)?.body).toBe('{"amount":1000}');
      expect((await merchant.charge(key)).body).toBe('{"ok":true}');

      // The credentials in the tester are already filled in.
      await page.getByRole('button', { name: 'Seal' }).click();
      await page.getByText('Sealed.', { exact: true }).waitFor();
      const envelope = await page.getByLabel('Envelope', { exact: true }).inputValue();
      const answered = await merchant.charge(key, envelope);
      await page.getByLabel('Envelope', { exact: true }).fill(answered.body);
      await page.getByRole('button', { name: 'Open', exact: true }).click();
      await page.getByText('The envelope opens.').waitFor();
      expect(await page.getByLabel('Text', { exact: true }).inputValue()).toBe('{"ok":true}');

      // The merchant has switched to envelopes, so plaintext is refused from now on.
      await confirm(page, 'End now');
      await page.getByText('Plain requests are accepted too.').waitFor({ state: 'detached' });
      await expect.poll(async () => codeOf(await merchant.charge(key))).toBe('envelope_required');

      // Replace the credentials: the merchant uses the old ones first, then the new ones.
      await confirm(page, 'Replace key and IV');
      const second = await takeCredentials(page);
      await page.getByText('The previous key and IV are accepted too.').waitFor();
      await expect
        .poll(async () => (await merchant.sealed(key, second)).headers['envelope-credentials'])
        .toBe('current');
      expect(opened(await merchant.sealed(key, first), first)).toBe('{"ok":true}');
      await page.getByText(/Still used/).waitFor();
      expect(await page.getByText('Still used: just now').count()).toBe(1);
      await page.getByText('API keys that have used it at this sidecar:').waitFor();
      await picture('6-still-used');
      await page.getByRole('link', { name: 'Overview' }).click();
      await page.getByRole('cell', { name: /Still used/ }).waitFor();
      await page.goBack();
      await page.getByRole('button', { name: 'End now' }).click();
      await page.getByText('It was used in the last five minutes: such requests will be refused.').waitFor();
      await page.getByRole('button', { name: 'Cancel' }).click();
      await page.clock.fastForward('10:00');
      await page.getByText(/Last used/).waitFor();
      await page.getByRole('button', { name: 'End now' }).click();
      await picture('7-end-the-grace');
      expect(await page.getByText('such requests will be refused').count()).toBe(0);
      await page.getByRole('dialog').getByRole('button', { name: 'End now' }).click();
      await page.getByText('The previous key and IV are accepted too.').waitFor({ state: 'detached' });
      await expect.poll(async () => codeOf(await merchant.sealed(key, first))).toBe('decryption_failed');
      expect(opened(await merchant.sealed(key, second), second)).toBe('{"ok":true}');

      // A request that was refused in the meantime is explained.
      await page.getByRole('link', { name: 'Activity' }).click();
      await page.getByText('The envelope could not be opened').first().waitFor();
      await picture('8-activity');

      await page.getByRole('link', { name: 'Accounts' }).first().click();
      await page.getByRole('heading', { name: 'Accounts' }).waitFor();

      // Disabling and enabling again creates new credentials.
      await page.getByRole('link', { name: 'acme' }).click();
      await page.getByRole('link', { name: 'Encryption Settings' }).click();
      await page.getByRole('switch', { name: 'Encryption in Test' }).click();
      await page.getByRole('button', { name: 'Disable' }).click();
      await page.getByText('Encryption is disabled in Test.').waitFor();
      await expect.poll(async () => (await merchant.charge(key)).body).toBe('{"ok":true}');
      // On a busy machine, the switch shows the new state later than the message.
      await expect.poll(() => page.getByRole('switch', { name: 'Encryption in Test' }).isChecked()).toBe(false);
      await page.getByRole('switch', { name: 'Encryption in Test' }).click();
      await page.getByRole('button', { name: 'Enable' }).click();
      const third = await takeCredentials(page);
      expect([first, second].map(({ key }) => key)).not.toContain(third.key);
      await expect.poll(async () => codeOf(await merchant.sealed(key, second))).toBe('decryption_failed');
      expect(opened(await merchant.sealed(key, third), third)).toBe('{"ok":true}');

      if (!isRenewing) return;
      const filled = await browser.open(url, { width: 1_280, height: 860 });
      await signIn(filled, 'operator');
      for (const [name, place, width = 1_280] of filledScreens) {
        await filled.setViewportSize({ width, height: 860 });
        await filled.goto(`${url}#/${place}`);
        await sleep(1_000);
        await filled.locator('.skeleton').first().waitFor({ state: 'detached' });
        await picture(name, filled);
      }
    });
  });
});

describe('docs/console.md', () => {
  test('shows every picture in its folder, and no other', () => {
    const shown = [...readFileSync('docs/console.md', 'utf8').matchAll(/\]\(console\/([^)]+\.png)\)/g)].map(
      ([, file = '']) => file,
    );
    expect(new Set(shown)).toEqual(new Set(readdirSync('docs/console')));
  });
});

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { describeWithChromium, useBrowser } from './browser.ts';
import { signIn, useConsole } from './sidecar.ts';
import { holdRequests } from './steps.ts';

const account = (id: string, expiresAt?: string) => ({
  id,
  name: id,
  keys: [
    {
      id: `${id}-old`,
      key: `sk_test_${id}${'x'.repeat(16)}`,
      createdAt: id === 'acme' ? '2024-12-01' : '2025-01-01',
      ...(expiresAt && { expiresAt }),
    },
  ],
});
const live = {
  enabled: true,
  key: 'p4Wn6bVc2KsH8dTf0QaZ5xJm3GyRu7Le',
  iv: 'Bn4Mx8Cz1Vl6Kj3H',
  createdAt: '2025-02-01',
};
const soon = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);

describeWithChromium('the work list of keys to rotate', () => {
  const browser = useBrowser();
  const sidecar = useConsole(() => ({
    accounts: {
      accounts: [
        account('acme'),
        { ...account('globex'), encryption: { live } },
        account('urgent', `${soon}T23:00:00Z`),
      ],
    },
  }));

  test('begins with keys that expire, rotates the selected keys, and shows their successors once', async () => {
    const { folder, merchant, url } = sidecar();
    const page = await browser.open(`${url}#/rotation`);
    await signIn(page, 'operator');
    const keys = page.getByRole('region', { name: 'To be replaced' });
    await keys.getByRole('link', { name: 'urgent' }).waitFor();
    expect(await keys.getByRole('rowheader').allTextContents()).toEqual(['urgent', 'acme', 'globex', 'globex']);
    await page.getByLabel('Sort this page').selectOption('Oldest first');
    await page.reload();
    const byAge = ['acme', 'urgent', 'globex', 'globex'];
    await expect.poll(() => keys.getByRole('rowheader').allTextContents()).toEqual(byAge);
    await page.getByLabel('Sort this page').selectOption('Most urgent first');
    await page.getByRole('button', { name: 'Key and IV' }).click();
    await keys.getByRole('link', { name: 'urgent' }).waitFor({ state: 'detached' });
    await page.reload();
    await keys.getByRole('row').filter({ hasText: 'Key and IV' }).getByText('Live').waitFor();
    await expect.poll(() => keys.getByRole('rowheader').allTextContents()).toEqual(['globex']);
    expect(await keys.getByRole('checkbox').count()).toBe(0);
    await page.getByRole('button', { name: 'Key and IV' }).click();
    await page.getByRole('button', { name: 'Live' }).click();
    await keys.getByRole('link', { name: 'urgent' }).waitFor({ state: 'detached' });
    await expect.poll(() => keys.getByRole('rowheader').allTextContents()).toEqual(['globex']);
    await page.getByRole('button', { name: 'Public keys' }).click();
    await page.getByText('Nothing is due.').waitFor();
    await page.getByRole('button', { name: 'Public keys' }).click();
    await page.getByRole('button', { name: 'Live' }).click();
    await keys.getByRole('checkbox', { name: 'acme-old' }).check();
    await keys.getByRole('checkbox', { name: 'globex-old' }).check();
    await page.getByRole('button', { name: 'Rotate 2 selected' }).click();
    const dialog = page.getByRole('dialog', { name: 'Rotate 2 keys' });
    await dialog.getByLabel('Keep the old key for').selectOption('no time: it ends immediately');
    expect(await dialog.getByRole('button', { name: 'Rotate' }).getAttribute('class')).toBe('danger');
    await dialog.getByLabel('Keep the old key for').selectOption('24 hours');
    await dialog.getByRole('button', { name: 'Rotate' }).click();
    await dialog.getByText('2 of 2 done').waitFor();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      dialog.getByRole('button', { name: 'Download as CSV' }).click(),
    ]);
    const file = folder.file('keys.csv');
    await download.saveAs(file);
    const [head, ...lines] = readFileSync(file, 'utf8').trim().split('\r\n');
    expect(head).toBe('account,replaces,id,key');
    expect(lines.map((line) => line.split(',').slice(0, 2).join(' '))).toEqual(['acme acme-old', 'globex globex-old']);
    for (const line of lines) {
      const successor = line.split(',').at(-1) ?? '';
      await expect.poll(async () => (await merchant.charge(successor)).status).toBe(200);
    }
    expect((await merchant.charge(`sk_test_acme${'x'.repeat(16)}`)).status).toBe(200);
    await dialog.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('button', { name: 'Rotate selected' }).waitFor();
    expect(await page.content()).not.toContain(lines[0]?.split(',').at(-1));
  });

  test('ends when the page is left, because nobody would see the secrets of further keys', async () => {
    const { url } = sidecar();
    const page = await browser.open(`${url}#/accounts`);
    // The previous test has rotated these keys, so rotating them again is refused with 409.
    browser.expectComplaint(/409/);
    await signIn(page, 'operator');
    await page.getByRole('link', { name: 'Rotation' }).click();
    await page.getByRole('checkbox', { name: 'globex-old' }).check();
    await page.getByRole('checkbox', { name: 'acme-old' }).check();
    await page.getByRole('button', { name: 'Rotate 2 selected' }).click();
    const rotations = await holdRequests(page, '**/rotate');
    const dialog = page.getByRole('dialog', { name: 'Rotate 2 keys' });
    await dialog.getByRole('button', { name: 'Rotate' }).click();
    await dialog.getByText('0 of 2 done').waitFor();
    const asked = page.waitForEvent('dialog');
    // The reload waits for the answer to the dialog.
    page.evaluate('location.reload()').catch(() => {});
    const question = await asked;
    expect(question.type()).toBe('beforeunload');
    await question.dismiss();
    await page.goBack();
    await dialog.waitFor({ state: 'detached' });
    const first = page.waitForResponse('**/rotate');
    rotations.release();
    await first;
    await page.getByRole('link', { name: 'Audit' }).click();
    await page.getByRole('heading', { name: 'Audit' }).waitFor();
    expect(rotations.count()).toBe(1);
  });
});

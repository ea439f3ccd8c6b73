import type { Page } from 'playwright-core';
import type { HandedOver } from './merchant.ts';

/** Presses a button, and then the button with the same name in the dialog that opens. */
export async function confirm(page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name, exact: true }).click();
  await page.getByRole('dialog').getByRole('button', { name, exact: true }).click();
}

/** Selects an action from the menu of a key or another item. @param name the item's name, or its id if it has none */
export async function select(page: Page, name: string, action: string): Promise<void> {
  await page.getByRole('button', { name: `Actions for ${name}`, exact: true }).click();
  await page.locator('ul.menu:popover-open').getByRole('button', { name: action, exact: true }).click();
}

/** Holds requests back. @returns a function that counts the requests so far, and one that sends them and stops holding requests back */
export async function holdRequests(page: Page, address: string) {
  const { promise, resolve } = Promise.withResolvers<void>();
  let requests = 0;
  await page.route(address, async (route) => {
    requests += 1;
    await promise;
    await route.continue();
  });
  return { count: (): number => requests, release: resolve };
}

/** Adds an account from the list of accounts; afterwards the page of the new account is open. */
export async function addAccount(page: Page, id: string, name: string): Promise<void> {
  await page.getByRole('button', { name: 'Add account' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Id').fill(id);
  await dialog.getByLabel('Name', { exact: true }).fill(name);
  await dialog.getByRole('button', { name: 'Add account' }).click();
  await page.getByRole('heading', { name }).waitFor();
}

/** Issues a secret test key on the page of an account, and returns it. */
export async function issueKey(page: Page): Promise<string> {
  await confirm(page, 'Issue key');
  return takeKey(page);
}

/** Returns the key that a dialog shows once, and closes the dialog. */
export async function takeKey(page: Page): Promise<string> {
  const dialog = page.getByRole('dialog', { name: 'The new API key' });
  const key = (await dialog.locator('.secret code').textContent()) ?? '';
  await dialog.getByRole('button', { name: 'Done' }).click();
  return key;
}

/** Returns the key and the IV that a dialog shows once, and closes the dialog. */
export async function takeCredentials(page: Page): Promise<HandedOver> {
  const dialog = page.getByRole('dialog', { name: /The new key and IV/ });
  await dialog.waitFor();
  const [key = '', iv = ''] = await dialog.locator('.secret code').allTextContents();
  await dialog.getByRole('button', { name: 'Done' }).click();
  return { key, iv };
}

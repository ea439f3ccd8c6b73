import { createServer, type IncomingHttpHeaders } from 'node:http';
import { expect, test, vi } from 'vitest';
import { listen } from '../support/listen.ts';
import { Mount, mayMount } from '../support/mount.ts';
import { describeWithChromium, useBrowser } from './browser.ts';
import { operators, signIn, useConsole, type Operator } from './sidecar.ts';
import { confirm, holdRequests, issueKey, select } from './steps.ts';

const entry = (id: string, name: string) => ({
  id,
  name,
  keys: [
    { id: `${id}-old`, key: `sk_test_${id}${'x'.repeat(16)}`, createdAt: '2025-01-01' },
    { id: `${id}-gone`, key: `pk_test_${id}${'x'.repeat(16)}`, createdAt: '2025-01-01', revokedAt: '2025-02-01' },
  ],
});
const accounts = { accounts: [entry('acme', 'Acme Stores'), entry('globex', 'Globex'), entry('initech', 'Initech')] };

describeWithChromium('the console', () => {
  const browser = useBrowser();
  const sidecar = useConsole(() => ({ accounts }));

  test('offers each role only the actions it may take', async () => {
    const offered = async (operator: Operator): Promise<number[]> => {
      const page = await browser.open(`${sidecar().url}#/accounts/acme`);
      await signIn(page, operator);
      await page.getByRole('heading', { name: 'Acme Stores' }).waitFor();
      const counts = [];
      for (const name of ['Deactivate', 'Issue key']) {
        counts.push(await page.getByRole('button', { name, exact: true }).count());
      }
      await page.getByRole('button', { name: 'Actions for acme-old' }).click();
      for (const name of ['Rotate', 'Revoke']) {
        counts.push(await page.getByRole('button', { name, exact: true }).count());
      }
      counts.push(await page.getByRole('link', { name: 'Accounts' }).count());
      return counts;
    };
    expect(await offered('viewer')).toEqual([0, 0, 0, 0, 2]);
    expect(await offered('operator')).toEqual([0, 1, 1, 1, 2]);
    expect(await offered('admin')).toEqual([1, 1, 1, 1, 2]);
    expect(await offered('merchant')).toEqual([0, 1, 1, 1, 0]);
  });

  test('shows a token of one account only that account', async () => {
    const { merchant, url } = sidecar();
    const page = await browser.open(`${url}#/accounts/globex`);
    await signIn(page, 'merchant');
    for (const place of ['accounts/globex', 'accounts', 'overview', 'rotation', 'audit', 'system', '']) {
      await page.goto(`${url}#/${place}`);
      await page.getByRole('heading', { name: 'Acme Stores' }).waitFor();
      expect(await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').count()).toBe(0);
      expect(await page.getByText(/globex/i).count()).toBe(0);
    }
    const issued = await issueKey(page);
    await expect.poll(async () => (await merchant.charge(issued)).status).toBe(200);
    for (const tab of ['Encryption Settings', 'Activity']) {
      await page.getByRole('link', { name: tab }).click();
      await page.getByRole('region', { name: tab }).waitFor();
    }
    await page.getByText(/issued the secret key/).waitFor();

    browser.expectComplaint(/403/);
    const headers = "headers: { 'session-key': sessionStorage.getItem('session-key') }";
    const statusOf = (line: string): Promise<unknown> => {
      const [method, path] = line.split(' ');
      return page.evaluate(
        `fetch('/api/v1/${path}', { method: '${method}', ${headers} }).then(({ status }) => status)`,
      );
    };
    for (const line of [
      'GET accounts/globex',
      'POST accounts/globex/deactivate',
      'POST accounts/globex/keys',
      'POST accounts/globex/keys/globex-old/revoke',
      'POST accounts/globex/encryption/test/enable',
      'GET activity?account=globex',
      'GET audit?account=globex',
      'GET overview',
      'GET configuration',
      'GET failures',
    ]) {
      expect([line, await statusOf(line)]).toEqual([line, 403]);
    }
    expect(await statusOf('GET accounts/acme')).toBe(200);
    const accounts = await page.evaluate(
      `fetch('/api/v1/accounts', { ${headers} }).then((response) => response.text())`,
    );
    expect(accounts).toContain('Acme Stores');
    expect(accounts).not.toMatch(/globex/i);
    expect((await merchant.charge('sk_test_globexxxxxxxxxxxxxxxxx')).status).toBe(200);
  });

  test('shows changes in two windows on one account, and refuses a change based on an old state', async () => {
    const one = await browser.open(`${sidecar().url}#/accounts/globex/keys`);
    await signIn(one, 'operator');
    const other = await browser.open(`${sidecar().url}#/accounts/globex/keys`, { beside: one });
    await signIn(other, 'admin');
    for (const page of [one, other]) {
      await select(page, 'globex-old', 'Revoke');
      await page.getByRole('dialog').waitFor();
    }
    await one.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await one.getByText('No key is valid.').waitFor();
    browser.expectComplaint(/409/);
    await other.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await other
      .getByRole('alert')
      .getByText(/already revoked/)
      .waitFor();
    await other.getByRole('button', { name: 'Cancel' }).click();
    await other.getByText('No key is valid.').waitFor();
    await confirm(other, 'Deactivate');
    await one.getByText('This account is inactive: all its requests are refused.').waitFor();
  });

  test('reports that the sidecar cannot be reached, keeps the data, and continues when the sidecar is back', async () => {
    const page = await browser.open(`${sidecar().url}#/accounts/initech`);
    const sent = page.waitForRequest((request) => request.method() === 'POST');
    await signIn(page, 'admin');
    // The token comes before the body, so that the connection does not have to make way for those of anonymous clients.
    expect((await sent).headers()['authorization']).toBe(`Bearer ${operators.admin.token}`);
    await page.getByRole('heading', { name: 'Initech' }).waitFor();
    browser.expectComplaint(/ERR_INTERNET_DISCONNECTED/);
    const dialog = page.getByRole('dialog');
    await page.context().setOffline(true);
    await page.getByText('The sidecar cannot be reached. This page may be out of date').waitFor();
    expect(await page.getByRole('heading', { name: 'Initech' }).count()).toBe(1);
    await confirm(page, 'Deactivate');
    await dialog.getByRole('alert').getByText('The sidecar cannot be reached. Try again.').waitFor();
    await page.context().setOffline(false);
    await dialog.getByRole('button', { name: 'Deactivate' }).click();
    await page.getByText('The account was deactivated.').waitFor();
    await page.getByText('This page may be out of date').waitFor({ state: 'detached' });
    const activate = page.getByRole('button', { name: 'Activate', exact: true });
    // While it was offline, the page could not learn that the account is inactive.
    await activate.waitFor();
    // The failure of an action without a dialog is shown, too.
    await page.context().setOffline(true);
    await activate.click();
    await page.getByRole('alert').getByText('The sidecar cannot be reached. Try again.').waitFor();
    await page.context().setOffline(false);
    await activate.click();
    await page.getByText('The account was activated.').waitFor();
    expect(await page.getByRole('alert').count()).toBe(0);
  });

  test('shows whether a change is in force, or stored and not in force yet', async () => {
    const page = await browser.open(`${sidecar().url}#/accounts/initech`);
    await signIn(page, 'operator');
    const respondWith = async (inForce: boolean): Promise<void> => {
      await page.unroute('**/rename');
      // Sets `in_force`, as if the sidecar had noticed the changed file at once, or had not noticed it yet.
      await page.route('**/rename', async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, json: { ...((await response.json()) as object), in_force: inForce } });
      });
    };
    const rename = async (name: string): Promise<void> => {
      await page.getByRole('button', { name: 'Rename' }).click();
      await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill(name);
      await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
    };
    await respondWith(true);
    await rename('Initech Ltd');
    await page.getByRole('status').getByText('The account was renamed. In force.').waitFor();
    await respondWith(false);
    await rename('Initech Inc');
    await page.getByRole('status').getByText('Stored, but not in force yet').waitFor();
  });

  test.skipIf(!mayMount)(
    'offers no changes to a file that cannot be written, explains why, and refuses a late change',
    async () => {
      const { configure, url } = sidecar();
      const mount = new Mount({ 'accounts.yaml': accounts }, 'size=64k');
      await configure({ accounts: { file: mount.file('accounts.yaml') } });
      const page = await browser.open(`${url}#/accounts/acme`);
      await signIn(page, 'operator');
      await page.getByRole('button', { name: 'Rename' }).click();
      await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('Other');
      mount.protect();
      browser.expectComplaint(/409/);
      await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
      await page.getByRole('alert').getByText('This sidecar cannot write the accounts.').waitFor();
      await page.reload();
      await page.getByText('This sidecar cannot write the accounts file.').waitFor();
      await page.getByRole('heading', { name: 'Acme Stores' }).waitFor();
      await page.getByRole('button', { name: 'Actions for acme-old' }).click();
      await page.getByRole('button', { name: 'Copy the id' }).waitFor();
      for (const name of ['Rename', 'Deactivate', 'Issue key', 'Revoke']) {
        expect(await page.getByRole('button', { name, exact: true }).count()).toBe(0);
      }
      await page.getByRole('link', { name: 'Encryption Settings' }).click();
      expect(await page.getByRole('switch', { name: 'Encryption in Test' }).isDisabled()).toBe(true);
      await page.close();
      await configure({});
    },
  );

  test('gives another server on its host a cookie that opens nothing, and nothing that its window stores', async () => {
    const { url } = sidecar();
    const page = await browser.open(url);
    await signIn(page, 'admin');
    let received: IncomingHttpHeaders = {};
    const neighbour = createServer((req, res) => {
      received = req.headers;
      res.setHeader('Content-Type', 'text/html').end('<!doctype html><link rel="icon" href="data:,"><title>x</title>');
    });
    const port = await listen(neighbour);
    const stored = 'JSON.stringify(Object.entries(sessionStorage)) + JSON.stringify(Object.entries(localStorage))';
    expect(await page.evaluate(stored)).toContain('session-key');
    await page.goto(`http://127.0.0.1:${port}/`);
    expect(await page.evaluate(stored)).toBe('[][]');
    expect(received['cookie']).toContain('sidecar-session');
    expect(JSON.stringify(received)).not.toContain('session-key');
    const { status } = await fetch(new URL('/api/v1/accounts', url), {
      headers: { cookie: received['cookie'] ?? '', 'sec-fetch-site': 'same-origin' },
    });
    expect(status).toBe(401);
    await page.goto(url);
    await page.getByText('ada, admin').waitFor();
  });

  test('shows what is wrong with a field only at the field, and other errors at the end of the dialog', async () => {
    const page = await browser.open(`${sidecar().url}#/accounts`);
    await signIn(page, 'admin');
    await page.getByRole('button', { name: 'Add account' }).click();
    const dialog = page.getByRole('dialog');
    const id = dialog.getByLabel('Id');
    await id.fill('no spaces here');
    await dialog.getByLabel('Name', { exact: true }).fill('Other');
    browser.expectComplaint(/400/);
    const add = dialog.getByRole('button', { name: 'Add account' });
    const alerts = dialog.getByRole('alert');
    await add.click();
    await alerts.first().waitFor();
    expect(await alerts.count()).toBe(1);
    expect(await id.getAttribute('aria-invalid')).toBe('true');
    const [error = ''] = ((await id.getAttribute('aria-describedby')) ?? '').split(' ');
    expect(await page.locator(`[id="${error}"]`).textContent()).toMatch(/letters|characters/);
    expect(await dialog.getByLabel('Name', { exact: true }).getAttribute('aria-invalid')).toBe('false');
    const errors = ['id', 'other'].map((path) => ({ path, message: 'is wrong' }));
    await page.route('**/api/v1/accounts', (route) => route.fulfill({ status: 400, json: { code: 'any', errors } }));
    await add.click();
    await expect.poll(() => alerts.allTextContents()).toEqual(['is wrong', 'other: is wrong']);
  });

  test('signs in with a link that contains a token, which is then neither in the address nor in the history', async () => {
    const { url } = sidecar();
    // The page may have a request in flight when its session is replaced. The browser then logs the 401.
    browser.expectComplaint(/401/);
    const page = await browser.open(`${url}#/sign-in/${operators.viewer.token}`);
    await page.getByText('vera, viewer').waitFor();
    expect(page.url()).not.toContain(operators.viewer.token);
    await page.getByRole('link', { name: 'Accounts' }).click();
    await page.goBack();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    expect(page.url()).not.toContain(operators.viewer.token);
    const stored = 'JSON.stringify([Object.entries(sessionStorage), Object.entries(localStorage)])';
    expect(await page.evaluate(stored)).not.toContain(operators.viewer.token);
    // The link also works in a window that already shows the console to another operator.
    await page.evaluate(`location.hash = '#/sign-in/${operators.admin.token}'`);
    await page.getByText(/, admin/).waitFor();
    expect(page.url()).not.toContain(operators.admin.token);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Token').waitFor();
    await page.evaluate(`location.hash = '#/sign-in/${operators.viewer.token}'`);
    await page.getByText('vera, viewer').waitFor();
    expect(page.url()).not.toContain(operators.viewer.token);
  });

  test('signs out a window that nobody has used for thirty minutes, although it keeps itself up to date', async () => {
    const page = await browser.open(sidecar().url);
    await page.clock.install();
    // Reload the page, so that its own timers use this clock.
    await page.reload();
    await signIn(page, 'viewer');
    await page.getByRole('link', { name: 'System' }).click();
    await page.clock.fastForward('29:30');
    await page.getByRole('heading', { name: 'System' }).waitFor();
    await page.clock.fastForward('01:00');
    // The next check is up to 15 seconds away.
    await page.clock.runFor('00:16');
    await page.getByText('Your session has ended. Sign in again to continue.').waitFor();
  });

  test('keeps the session of the next operator although a request of the previous one is refused late', async () => {
    const page = await browser.open(sidecar().url);
    browser.expectComplaint(/401/);
    await signIn(page, 'viewer');
    const lists = await holdRequests(page, '**/api/v1/accounts?*');
    await page.getByRole('link', { name: 'Accounts' }).click();
    await vi.waitFor(() => expect(lists.count()).not.toBe(0));
    const headers = `{ 'Session-Key': sessionStorage.getItem('session-key') }`;
    await page.evaluate(`fetch('/console/session', { method: 'DELETE', headers: ${headers} })`);
    await page.evaluate(`location.hash = '#/system'`);
    await page.getByText('Your session has ended').waitFor();
    await signIn(page, 'admin');
    await page.getByText(/, admin/).waitFor();
    const refused = page.waitForResponse((response) => response.status() === 401);
    lists.release();
    await refused;
    await page.getByRole('link', { name: 'Overview' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    expect(await page.getByText('Your session has ended').count()).toBe(0);
  });

  test('cancels the requests of a session that the operator ends, so that none of them is refused', async () => {
    const page = await browser.open(sidecar().url);
    await signIn(page, 'viewer');
    const lists = await holdRequests(page, '**/api/v1/accounts?*');
    await page.getByRole('link', { name: 'Accounts' }).click();
    await vi.waitFor(() => expect(lists.count()).not.toBe(0));
    const cancelled = page.waitForEvent('requestfailed', (request) => request.url().includes('/api/v1/accounts?'));
    await page.getByRole('button', { name: 'Sign out' }).click();
    await cancelled;
    await page.getByLabel('Token').waitFor();
    lists.release();
    expect(await page.getByText(/cannot be reached|unreachable/i).count()).toBe(0);
    await signIn(page, 'admin');
    await page.getByText(/, admin/).waitFor();
  });

  test('refuses a wrong token, and reports when a session has ended', async () => {
    const { url, configure } = sidecar();
    const page = await browser.open(url);
    browser.expectComplaint(/40[13]/);
    await page.getByLabel('Token').fill(operators.core.token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('A token with the role core cannot sign in.').waitFor();
    await page.getByLabel('Token').fill('no-token-of-this-sidecar-at-all-0123456789');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('This sidecar does not know this token.').waitFor();
    await signIn(page, 'viewer');
    await page.getByText('vera, viewer').waitFor();
    await page.reload();
    await page.getByRole('link', { name: 'Accounts' }).click();
    await page.getByRole('link', { name: 'acme' }).click();
    await page.getByRole('heading', { name: 'Acme Stores' }).waitFor();
    await configure({ operators: { host: '127.0.0.1', port: Number(new URL(url).port), tokens: [operators.admin] } });
    await page.getByText('Your session has ended. Sign in again to continue.').waitFor();
    expect(await page.getByText('Acme Stores').count()).toBe(0);
    await signIn(page, 'admin');
    await page.getByRole('heading', { name: 'Acme Stores' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Token').waitFor();
    expect(await page.getByText('Your session has ended').count()).toBe(0);
  });
});

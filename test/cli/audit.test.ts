import { hostname, userInfo } from 'node:os';
import { expect, test } from 'vitest';
import type { AuditEventView } from '../../src/accounts/views.ts';
import { commandsOn } from '../support/command-line.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { describeOnEachStore } from '../support/stores.ts';

const start = Date.parse('2026-11-21T10:00:00Z');
const day = 86_400_000;

describeOnEachStore('audit list', (newStore) => {
  async function commands(env: Readonly<Record<string, string>> = {}) {
    const folder = new Folder({
      'accounts.yaml': 'accounts: []\n',
      'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { accounts: await newStore() }),
    });
    let now = start;
    const { run, json } = commandsOn(folder.file('sidecar.yaml'), { clock: () => now, env });
    const list = (filter = '') => json<AuditEventView[]>(`audit list${filter}`);
    return { run, list, later: () => void (now += day) };
  }

  test('shows the actor, action and time of changes; all of them, those of one account, or those since a time', async () => {
    const { run, list, later } = await commands();
    expect((await run('audit list')).stdout).toBe('No changes.\n');
    expect(await list()).toEqual([]);
    await run('accounts add acme --name Acme --actor ana');
    later();
    await run('accounts add globex --name Globex --actor ben');
    await run('accounts deactivate acme --actor ben');
    // This command is refused, so it must not appear in the trail.
    await run('accounts add acme --name Acme --actor eve');
    const event = (position: number, at: string, actor: string, action: string, account: string, details = {}) => {
      return { position, at, actor, action, account, details, origin: `${userInfo().username}@${hostname()}` };
    };
    const added = event(1, '2026-11-21T10:00:00Z', 'user:ana', 'account_added', 'acme', { name: 'Acme' });
    const other = event(2, '2026-11-22T10:00:00Z', 'user:ben', 'account_added', 'globex', { name: 'Globex' });
    const off = event(3, '2026-11-22T10:00:00Z', 'user:ben', 'account_deactivated', 'acme');
    expect(await list()).toEqual([off, other, added]);
    expect(await list(' --before 3')).toEqual([other, added]);
    expect(await list(' --after 1')).toEqual([other, off]);
    expect(await list(' --account acme')).toEqual([off, added]);
    expect(await list(' --since 2026-11-22')).toEqual([off, other]);
    expect(await list(' --since 2026-11-22T10:00:01Z')).toEqual([]);
    expect(await list(' --until 2026-11-22T10:00:00Z')).toEqual([added]);
    expect(await list(' --actor ben')).toEqual([off, other]);
    expect(await list(' --actor user:ben --account acme')).toEqual([off]);
    expect(await list(' --actor token:ben')).toEqual([]);
    expect(await list(' --actor en')).toEqual([]);
    expect(await list(' --action account_added')).toEqual([other, added]);
    await run('encryption enable acme --environment live');
    expect((await list(' --environment live')).map(({ action }) => action)).toEqual(['encryption_enabled']);
    expect(await list(' --environment test')).toEqual([]);
    expect(await run('audit list --action deleted')).toMatchObject({ code: 2 });
    expect((await run('audit list --account globex')).stdout.split('\n')).toEqual([
      expect.stringMatching(/^POSITION +TIME +ACTOR +ACTION +ACCOUNT +DETAILS$/),
      expect.stringMatching(/^2 +2026-11-22T10:00:00Z +user:ben +account_added +globex +name=/),
      '',
    ]);
    expect(await run('audit list --since 2026-02-30')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Expected a date that exists.') as string,
    });
  });

  test('takes the actor from the environment, which must be one word', async () => {
    const { run, list } = await commands({ SIDECAR_ACTOR: 'pipeline' });
    await run('accounts add acme --name Acme');
    await run('accounts add globex --name Globex --actor ana');
    expect((await list()).map(({ actor }) => actor)).toEqual(['user:ana', 'user:pipeline']);
    // The actor from the environment does not filter the list.
    expect(await list()).toHaveLength(2);
    const odd = await commands({ SIDECAR_ACTOR: 'two words' });
    expect(await odd.run('accounts add acme --name Acme')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('SIDECAR_ACTOR: expected') as string,
    });
    expect(await odd.list()).toEqual([]);
  });

  test.each(['accounts list', 'accounts show acme', 'keys list acme', 'keys due', 'audit verify', 'audit export'])(
    'is the only reading command that has --actor: %s does not',
    async (command) => {
      const { run } = await commands();
      await run('accounts add acme --name Acme');
      expect(await run(`${command} --actor ana`)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("unknown option '--actor'") as string,
      });
    },
  );
});

import { spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { FileStore } from '../../../src/accounts/file/store.ts';
import { verifyTrail } from '../../../src/audit/verify.ts';
import { Folder } from '../../support/folder.ts';

const program = fileURLToPath(new URL('change-writer.ts', import.meta.url));

/** How many times a writer is killed, and how many changes it makes each time before that. */
const kills = 8;
const changes = 25;

test(
  'however often a writer is killed, the trail is intact, and every change has its event',
  { timeout: 120_000 },
  async () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    const folder = new Folder({
      'accounts.yaml': 'accounts: []\n',
      'audit.pem': privateKey.export({ type: 'pkcs8', format: 'pem' }),
    });
    const file = folder.file('accounts.yaml');
    for (let i = 0; i < kills; i += 1) {
      const writer = spawn(process.execPath, [program, file, folder.file('audit.pem'), `w${i}`], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let made = 0;
      for await (const text of writer.stdout as AsyncIterable<Buffer>) {
        made += text.toString().split('\n').length - 1;
        if (made >= changes) break;
      }
      const ended = once(writer, 'close');
      writer.kill('SIGKILL');
      await ended;
    }
    const store = new FileStore({ file, env: {}, auditKeys: [privateKey] });
    await store.change([], () => {
      const event = { at: 1, actor: 'user:ana', action: 'accounts_exported', account: undefined, details: {} } as const;
      return { accounts: [], events: [event], result: undefined };
    });
    const report = await verifyTrail(store.trail(), { keys: [publicKey], anchors: [] });
    expect(report.problems).toEqual([]);
    expect(report.signed).toBe(report.events);
    const recorded = new Set<string | undefined>();
    for await (const { account } of store.events({})) recorded.add(account);
    let accounts = 0;
    for await (const { id } of store.list()) {
      accounts += 1;
      expect(recorded).toContain(id);
    }
    expect(accounts).toBeGreaterThanOrEqual(kills * changes);
  },
);

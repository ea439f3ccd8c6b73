// A process that adds accounts to a file one after another, for tests that kill it midway. It prints the id of each added account.
import { createPrivateKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { FileStore } from '../../../src/accounts/file/store.ts';

const [file = '', key = '', prefix = ''] = process.argv.slice(2);
const store = new FileStore({ file, env: {}, auditKeys: [createPrivateKey(readFileSync(key))] });
for (let i = 0; ; i += 1) {
  const id = `${prefix}-${i}`;
  const account = { id, name: id, active: true, keys: [], encryption: {} };
  const event = { at: i, actor: 'user:ana', action: 'account_added', account: id, details: {} } as const;
  await store.change([id], () => ({ accounts: [account], events: [event], result: undefined }));
  process.stdout.write(`${id}\n`);
}

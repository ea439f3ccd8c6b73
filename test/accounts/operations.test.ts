import { onTestFinished } from 'vitest';
import { FileStore } from '../../src/accounts/file/store.ts';
import { OperationsThreads } from '../../src/accounts/file/thread.ts';
import type { OperationsOptions } from '../../src/accounts/operations.ts';
import type { RemoteOperations } from '../../src/accounts/operations-rpc.ts';
import { parseMasterKeys } from '../../src/accounts/master-key.ts';
import { Folder } from '../support/folder.ts';
import { describeOperations } from './operations-suite.ts';

const masterKeys = parseMasterKeys(`${'00'.repeat(32)}\n${'11'.repeat(32)}`) ?? [];

describeOperations('on a file', async () => {
  const options = onNewFile();
  return { open: () => new FileStore(options) };
});

describeOperations('on a file, alongside traffic', async () => {
  const file = onNewFile();
  const operations = ({ clock, audit }: OperationsOptions): RemoteOperations => {
    const thread = new OperationsThreads({ ...file, clock, monotonic: () => performance.now(), audit });
    onTestFinished(() => thread.close());
    return thread.operations;
  };
  return { open: () => new FileStore(file), operations };
});

function onNewFile() {
  const folder = new Folder({ 'accounts.yaml': 'accounts: []\n' });
  return { file: folder.file('accounts.yaml'), env: {}, masterKeys };
}

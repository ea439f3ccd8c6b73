import { FileStore } from '../../src/accounts/file/store.ts';
import { parseMasterKeys } from '../../src/accounts/vault.ts';
import { Folder } from '../support/folder.ts';
import { describeOperations } from './operations-suite.ts';

describeOperations('on a file', async () => {
  const folder = new Folder({ 'accounts.yaml': 'accounts: []\n' });
  const masterKeys = parseMasterKeys(`${'00'.repeat(32)}\n${'11'.repeat(32)}`) ?? [];
  return { open: () => new FileStore({ file: folder.file('accounts.yaml'), env: {}, masterKeys }) };
});

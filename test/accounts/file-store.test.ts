import { FileStore, type FileStoreOptions } from '../../src/accounts/file-store.ts';
import { ThreadedFileStore } from '../../src/accounts/threaded-file-store.ts';
import { Folder } from '../support/folder.ts';
import { describeStore, type Storage } from './store-suite.ts';

function storageOf(Kind: new (options: FileStoreOptions) => FileStore): () => Promise<Storage> {
  return async () => {
    const folder = new Folder({ 'accounts.yaml': 'accounts: []\n' });
    return { open: () => new Kind({ file: folder.file('accounts.yaml'), env: {}, masterKeys: [] }) };
  };
}

describeStore('a file', storageOf(FileStore));
describeStore('a file, beside traffic', storageOf(ThreadedFileStore));

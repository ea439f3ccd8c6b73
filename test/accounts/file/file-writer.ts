// A process that never stops rewriting a file under its lock, for tests that kill it midway. Each text repeats one line 20,000 times, so
// that a half-written text can be recognised.
import { lockFile } from '../../../src/accounts/file/lock.ts';
import { replaceFile, readVersion } from '../../../src/accounts/file/replace.ts';

const [path = ''] = process.argv.slice(2);
await lockFile(path, 0);
process.stdout.write('locked\n');
for (let i = 0; ; i++) replaceFile(path, `line ${i}\n`.repeat(20_000), readVersion(path));

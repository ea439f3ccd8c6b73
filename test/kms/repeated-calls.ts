/**
 * A program whose memory a test searches. It makes a master key and wraps it 50 times. Then, when it is told to, it has the line unwrapped
 * 50 times.
 *
 * repeated-calls.ts SOCKET
 */
import { generateKeySync } from 'node:crypto';
import { once } from 'node:events';
import { parseMasterKeys } from '../../src/accounts/master-key.ts';
import { kmsKeyring } from '../../src/kms/kms-keyring.ts';

const keyring = kmsKeyring({ socket: process.argv[2] ?? '', timeout: 3_000 }, Date.now);
const key = generateKeySync('aes', { length: 256 });
let line = '';
for (let i = 0; i < 50; i += 1) line = await keyring.wrap(key);
const [wrapped] = parseMasterKeys(line) ?? [];
if (wrapped === undefined) throw new Error('not a line');
process.stdout.write('wrapped\n');
await once(process.stdin, 'data');
for (let i = 0; i < 50; i += 1) await keyring.unwrap(wrapped).catch(() => {});
process.stdout.write('done\n');
process.stdin.resume();

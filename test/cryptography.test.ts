import { globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { cryptography } from '../src/cryptography.ts';

/** If an envelope does not open in test, this file tries the algorithms that a merchant's program may have used by mistake. */
const tryingMistakes = 'src/envelope/hints/misuse.ts';
/** This program runs in browsers, where the algorithms have other names. */
const inBrowsers = 'src/console/envelope.ts';

/** A call to Node's or a browser's cryptography that names its algorithm as a literal. */
const named =
  /\b(?:create(?:Hash|Hmac|Cipheriv|Decipheriv|Sign|Verify)|hash|hkdf\w*|pbkdf2\w*|generateKeyPair\w*)\(\s*['"`]|asymmetricKeyType\W+'|\bsubtle\./;
const sources = new Map(
  globSync('src/**/*.{ts,tsx}').map((file) => [file.replaceAll('\\', '/'), readFileSync(file, 'utf8')]),
);

test('no other file names an algorithm in order to use it', () => {
  const naming = [...sources].filter(([, text]) => named.test(text)).map(([file]) => file);
  expect(naming.toSorted()).toEqual([inBrowsers, tryingMistakes].toSorted());
});

test('the pattern for such calls finds them', () => {
  for (const call of [
    "createHash('md5')",
    "hash('sha1', x)",
    "key.asymmetricKeyType === 'rsa'",
    'crypto.subtle.sign()',
  ]) {
    expect(named.test(call)).toBe(true);
  }
  expect(named.test('createHash(cryptography.digest.algorithm)')).toBe(false);
});

test.each(Object.entries(cryptography))('%s is used where the table says', (use, { files, algorithm }) => {
  const using = [...sources].filter(([, text]) => text.includes(`cryptography.${use}`)).map(([file]) => file);
  expect(using.length).toBeGreaterThan(0);
  const listed: readonly string[] = files;
  expect(using.filter((file) => !listed.includes(file))).toEqual([]);
  // These files belong to the trail. They use keys that were checked to be ed25519 keys when they were read.
  const others = listed.filter((file) => !using.includes(file) && file !== inBrowsers);
  for (const file of others)
    expect([algorithm, sources.get(file)]).toEqual(['ed25519', expect.stringMatching(/\b(?:sign|verify)\(/)]);
});

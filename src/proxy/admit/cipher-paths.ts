import type { CipherTest } from './exchange.ts';

/** The paths of the two test endpoints; equally long. */
export const cipherTestPaths = {
  encrypt: '/api/s2s/aes-encrypt',
  decrypt: '/api/s2s/aes-decrypt',
} as const satisfies Readonly<Record<CipherTest, string>>;

const { length } = cipherTestPaths.encrypt;

/** The test endpoint of a path, in any letter case and with or without a trailing slash, as routes match. */
export function cipherTestAt(path: string): CipherTest | undefined {
  // Other paths, which are most, are not copied.
  if (path.length !== length && !(path.length === length + 1 && path.endsWith('/'))) return undefined;
  switch (path.slice(0, length).toLowerCase()) {
    case cipherTestPaths.encrypt:
      return 'encrypt';
    case cipherTestPaths.decrypt:
      return 'decrypt';
    default:
      return undefined;
  }
}

import type { CipherTest } from './exchange.ts';

/** The test endpoint of a path, in any letter case and with or without a trailing slash, as routes match. */
export function cipherTestAt(path: string): CipherTest | undefined {
  // Both have 20 characters: other paths, which are most, are not copied.
  if (path.length !== 20 && path.length !== 21) return undefined;
  switch (path.toLowerCase()) {
    case '/api/s2s/aes-encrypt':
    case '/api/s2s/aes-encrypt/':
      return 'encrypt';
    case '/api/s2s/aes-decrypt':
    case '/api/s2s/aes-decrypt/':
      return 'decrypt';
    default:
      return undefined;
  }
}

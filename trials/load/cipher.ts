import { createCipheriv, createDecipheriv } from 'node:crypto';

/** A merchant's key and IV. */
export interface MerchantCredentials {
  readonly key: string;
  readonly iv: string;
}

/** The envelope of `plaintext`, created without the sidecar's code. */
export function sealedBy({ key, iv }: MerchantCredentials, plaintext: string): string {
  const cipher = createCipheriv('aes-256-cbc', key, iv);
  return JSON.stringify({ data: cipher.update(plaintext, 'utf8', 'hex') + cipher.final('hex') });
}

/** The plaintext of a sealed body; undefined if these credentials do not open it. */
export function openedBy({ key, iv }: MerchantCredentials, body: string): string | undefined {
  try {
    const { data } = JSON.parse(body) as { data: string };
    const decipher = createDecipheriv('aes-256-cbc', key, iv);
    return decipher.update(data, 'hex', 'utf8') + decipher.final('utf8');
  } catch {
    return undefined;
  }
}

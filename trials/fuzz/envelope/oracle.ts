import { createCipheriv, createDecipheriv } from 'node:crypto';

/** The strings that a merchant is given. */
export interface Secrets {
  readonly key: string;
  readonly iv: string;
}

/**
 * The expected result of opening a body: the plaintext and the secret that opened it, or the reason for the failure.
 */
export type Verdict =
  | { readonly plaintext: Buffer; readonly by: number }
  | { readonly code: 'envelope_required' | 'envelope_malformed' }
  | { readonly code: 'decryption_failed'; readonly reason: 'encoding' | 'length' | 'padding' | 'not_json' };

const space = '[\\x20\\n\\r\\t]*';
const string = '("(?:[^"\\\\\\x00-\\x1f]|\\\\(?:["\\\\/bfnrt]|u[0-9A-Fa-f]{4}))*")';
const soleMember = new RegExp(`^${space}\\{${space}${string}${space}:${space}${string}${space}\\}${space}$`);
const hex = /^(?:[0-9A-Fa-f]{2})*$/;
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$/;
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Reads a JSON document. Returns its text and its value; undefined if the bytes are not JSON. */
function jsonOf(bytes: Buffer): { readonly text: string; readonly value: unknown } | undefined {
  try {
    const text = utf8.decode(bytes);
    return { text, value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/** The string of an object whose only member is `data`. */
function soleString(text: string): string | undefined {
  const match = soleMember.exec(text);
  if (match === null || JSON.parse(match[1] ?? '') !== 'data') return undefined;
  return JSON.parse(match[2] ?? '') as string;
}

function ciphertextOf(data: string): Buffer | undefined {
  if (hex.test(data)) return Buffer.from(data, 'hex');
  return base64.test(data) ? Buffer.from(data, 'base64') : undefined;
}

function decrypted({ key, iv }: Secrets, ciphertext: Buffer): Buffer | undefined {
  const decipher = createDecipheriv('aes-256-cbc', key, iv);
  try {
    return Buffer.concat([decipher.update(ciphertext), decipher.final()]);
  } catch {
    return undefined;
  }
}

/** The ciphertext of a plaintext. There is only one, because the key and the IV are fixed. */
export function encrypted({ key, iv }: Secrets, plaintext: Buffer): Buffer {
  const cipher = createCipheriv('aes-256-cbc', key, iv);
  return Buffer.concat([cipher.update(plaintext), cipher.final()]);
}

/** The expected result of opening `body` with the first matching secret. */
export function verdictOf(body: Buffer, candidates: readonly Secrets[]): Verdict {
  const json = jsonOf(body);
  if (json === undefined) return { code: 'envelope_malformed' };
  const { text, value } = json;
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, 'data'))
    return { code: 'envelope_required' };
  const data = soleString(text);
  if (data === undefined) return { code: 'envelope_malformed' };
  const ciphertext = ciphertextOf(data);
  if (ciphertext === undefined) return { code: 'decryption_failed', reason: 'encoding' };
  if (ciphertext.length === 0 || ciphertext.length % 16 !== 0) return { code: 'decryption_failed', reason: 'length' };
  let reason: 'padding' | 'not_json' = 'padding';
  for (const [by, candidate] of candidates.entries()) {
    const plaintext = decrypted(candidate, ciphertext);
    if (plaintext === undefined) continue;
    if (jsonOf(plaintext) !== undefined) return { plaintext, by };
    reason = 'not_json';
  }
  return { code: 'decryption_failed', reason };
}

/** Whether a body is meant as an envelope, and whether it is one, as far as can be decided without credentials. */
export function shapeOf(body: Buffer): { readonly shape: boolean; readonly whole: boolean } {
  const data = soleString(jsonOf(body)?.text ?? '');
  const ciphertext = data === undefined ? undefined : ciphertextOf(data);
  return {
    shape: data !== undefined,
    whole: ciphertext !== undefined && ciphertext.length > 0 && ciphertext.length % 16 === 0,
  };
}

/** Opens an envelope that has exactly the form in which the sidecar seals; undefined for any other form. */
export function unsealed(body: string, secrets: Secrets, encoding: 'hex' | 'base64'): string | undefined {
  const data = /^\{"data":"([0-9A-Za-z+/=]+)"\}$/.exec(body)?.[1];
  if (data === undefined) return undefined;
  const ciphertext = Buffer.from(data, encoding);
  if (ciphertext.toString(encoding) !== data) return undefined;
  return decrypted(secrets, ciphertext)?.toString('latin1');
}

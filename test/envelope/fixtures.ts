import { spawnSync } from 'node:child_process';
import { AesCbc } from '../../src/envelope/aes-cbc.ts';
import { Credentials } from '../../src/envelope/credentials.ts';
import { parseCredentials } from '../../src/envelope/formats.ts';

/** Parses credentials of any bytes as the configuration does. */
export function credentialsOf(key: Uint8Array, iv: Uint8Array): Credentials {
  const parsed = parseCredentials(Buffer.from(key).toString('base64'), Buffer.from(iv).toString('base64'), 'base64');
  if (parsed instanceof Credentials) return parsed;
  throw new Error(JSON.stringify(parsed));
}

export const key = Buffer.from('0123456789abcdefghijklmnopqrstuv');
export const iv = Buffer.from('ABCDEFGHIJKLMNOP');
export const credentials = credentialsOf(key, iv);
export const cipher = new AesCbc(credentials);
export const otherCredentials = credentialsOf(Buffer.from('another key of exactly 32 bytes!'), iv);

/** Returns a result that must be available without waiting. */
export function now<T>(result: T | Promise<T>): T {
  if (result instanceof Promise) throw new Error('the result is a promise');
  return result;
}

/** Runs `openssl enc -aes-256-cbc` on this input. `args` are extra arguments such as `-d` or `-nopad`. */
export function openssl(key: Uint8Array, iv: Uint8Array, input: Uint8Array, ...args: readonly string[]): Buffer {
  const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
  const options = ['enc', '-aes-256-cbc', '-K', hex(key), '-iv', hex(iv), ...args];
  const { status, stdout, stderr } = spawnSync('openssl', options, { input, maxBuffer: 1 << 26 });
  if (status !== 0) throw new Error(stderr.toString());
  return stdout;
}

import { createCipheriv, createSecretKey, type KeyObject } from 'node:crypto';
import { decodeBase64 } from '../envelope/encoding.ts';
import { AccountsError } from './accounts-error.ts';
import type { EnvironmentName } from './api-key.ts';
import { parseWrappedKey, type WrappedKey } from './wrapped-key.ts';
import { cryptography } from '../cryptography.ts';

/** A key that seals credentials before they are stored. */
export interface MasterKey {
  /** The key itself; undefined until a keyring has unwrapped it. */
  readonly key?: KeyObject | undefined;
  /** The key check value, which tells keys apart without revealing anything about them. */
  readonly kcv: string;
  /** The only environment whose credentials the key seals; undefined if it seals the credentials of both environments. */
  readonly environment?: EnvironmentName | undefined;
  /** The key as a KMS has wrapped it; undefined if the key was configured in the clear. */
  readonly wrapped?: WrappedKey;
  /** Why the key could not be unwrapped. */
  readonly problem?: string;
}

/** The length of a master key, in bytes. */
export const masterKeyLength = 32;

/**
 * Parses master keys, one per line. A line is either 32 bytes in base64 or hex, or a key wrapped by a KMS. The first key wraps and every
 * key unwraps, so that the key can be changed while sidecars run. Returns undefined if the text is invalid.
 */
export function parseMasterKeys(text: string): readonly MasterKey[] | undefined {
  const keys = text
    .trim()
    .split(/\s*\n\s*/)
    .map((line) => parseClearKey(line) ?? parseWrappedLine(line));
  return keys.every((key) => key !== undefined) ? keys : undefined;
}

/** Parses a key in the clear. The decoded bytes are overwritten afterwards, because Node reuses memory without clearing it. */
function parseClearKey(line: string): MasterKey | undefined {
  const bytes = /^[0-9A-Fa-f]{64}$/.test(line) ? Buffer.from(line, 'hex') : decodeBase64(line);
  if (bytes?.length !== masterKeyLength) return undefined;
  const key = createSecretKey(bytes);
  bytes.fill(0);
  return createMasterKey(key);
}

function parseWrappedLine(line: string): MasterKey | undefined {
  const wrapped = parseWrappedKey(line);
  return wrapped && { kcv: wrapped.kcv, wrapped };
}

/** The keys of an environment, starting with the one that seals; undefined if all keys are for the other environment. */
export function keysFor(environment: EnvironmentName, all: readonly MasterKey[]): readonly MasterKey[] | undefined {
  const own = all.filter((each) => (each.environment ?? environment) === environment);
  return own.length === 0 && all.length > 0 ? undefined : own;
}

/** The number of the line on which a key is configured, counted from 1. */
export function getPlace(key: MasterKey, all: readonly MasterKey[]): number {
  return all.filter(({ environment }) => environment === key.environment).indexOf(key) + 1;
}

export function masterKeyMissing(environment: EnvironmentName): AccountsError {
  const message = `credentials in ${environment} need the master key of ${environment}: set accounts.masterKey.${environment}`;
  return new AccountsError('master_key_missing', message);
}

export function openedKey({ key }: MasterKey): KeyObject {
  if (key === undefined) throw new Error('a master key is used that no keyring has unwrapped');
  return key;
}

/** Adds the check value to a key: the first 5 bytes of the AES-CMAC of 16 zero bytes, in hex (ANSI X9.24-1). */
export function createMasterKey(key: KeyObject): MasterKey & { readonly key: KeyObject } {
  const encrypted = (block: Buffer): Buffer =>
    createCipheriv(cryptography.checkValue.algorithm, key, null).setAutoPadding(false).update(block);
  // The CMAC of one whole block of zeros is the encrypted first subkey (NIST SP 800-38B §6.1).
  return { key, kcv: encrypted(doubled(encrypted(Buffer.alloc(16)))).toString('hex', 0, 5) };
}

/** Multiplies a block by x in GF(2¹²⁸). */
function doubled(block: Buffer): Buffer {
  const shifted = Buffer.from(block.map((byte, i) => (byte << 1) | ((block[i + 1] ?? 0) >> 7)));
  const last = shifted.length - 1;
  if ((block[0] ?? 0) & 0x80) shifted.writeUInt8(shifted.readUInt8(last) ^ 0x87, last);
  return shifted;
}

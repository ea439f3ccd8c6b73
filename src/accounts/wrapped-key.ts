import { z } from 'zod';
import { decodeBase64 } from '../envelope/encoding.ts';

const marker = 'kms:v1:';

/** What a KMS needs to unwrap a master key. None of it is secret. */
export interface WrappedKey {
  /** The line as written. */
  readonly line: string;
  /** The KMS's name for the key that it was wrapped with. */
  readonly keyId: string;
  /** In base64, as are the values of the annotations. */
  readonly ciphertext: string;
  /** The KMS's own, returned to it unchanged. */
  readonly annotations: Readonly<Record<string, string>>;
}

const base64 = z.string().refine((text) => text === '' || decodeBase64(text) !== undefined);

const content = z.strictObject({
  key_id: z.string(),
  ciphertext: base64,
  annotations: z.record(z.string(), base64),
  kcv: z.string().regex(/^[0-9a-f]{10}$/),
  created_at: z.iso.datetime(),
});

export function isWrappedLine(line: string): boolean {
  return line.startsWith(marker);
}

/** The wrapped key of a line, and the key check value of what is in it; undefined if the line is invalid. */
export function parseWrappedKey(line: string): { readonly kcv: string; readonly wrapped: WrappedKey } | undefined {
  const written = line.slice(marker.length);
  const bytes = Buffer.from(written, 'base64url');
  if (bytes.toString('base64url') !== written) return undefined;
  try {
    const { key_id: keyId, ciphertext, annotations, kcv } = content.parse(JSON.parse(bytes.toString()));
    return { kcv, wrapped: { line, keyId, ciphertext, annotations } };
  } catch {
    return undefined;
  }
}

/** The line of a wrapped master key. @param now epoch milliseconds */
export function formatWrappedKey(wrapped: Omit<WrappedKey, 'line'>, kcv: string, now: number): string {
  const { keyId: key_id, ciphertext, annotations } = wrapped;
  const members = { key_id, ciphertext, annotations, kcv, created_at: new Date(now).toISOString() };
  return marker + Buffer.from(JSON.stringify(members)).toString('base64url');
}

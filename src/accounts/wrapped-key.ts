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

/** The members of a line, all of them texts but the annotations. */
const members = ['annotations', 'ciphertext', 'created_at', 'kcv', 'key_id'];

// By hand, because a running sidecar holds this module in memory, and no parser of configurations.
function isContent(value: unknown): value is Content {
  if (typeof value !== 'object' || value === null) return false;
  const { annotations, ciphertext, created_at: createdAt, kcv, key_id: keyId } = value as Record<string, unknown>;
  return (
    Object.keys(value).toSorted().join(' ') === members.join(' ') &&
    typeof keyId === 'string' &&
    isBase64(ciphertext) &&
    typeof annotations === 'object' &&
    annotations !== null &&
    Object.values(annotations).every(isBase64) &&
    typeof kcv === 'string' &&
    /^[0-9a-f]{10}$/.test(kcv) &&
    typeof createdAt === 'string' &&
    /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/.test(createdAt)
  );
}

interface Content {
  readonly key_id: string;
  readonly ciphertext: string;
  readonly annotations: Readonly<Record<string, string>>;
  readonly kcv: string;
  readonly created_at: string;
}

function isBase64(value: unknown): boolean {
  return typeof value === 'string' && (value === '' || decodeBase64(value) !== undefined);
}

export function isWrappedLine(line: string): boolean {
  return line.startsWith(marker);
}

/** The wrapped key of a line, and the key check value of what is in it; undefined if the line is invalid. */
export function parseWrappedKey(line: string): { readonly kcv: string; readonly wrapped: WrappedKey } | undefined {
  const written = line.slice(marker.length);
  const bytes = Buffer.from(written, 'base64url');
  if (bytes.toString('base64url') !== written) return undefined;
  try {
    const content = JSON.parse(bytes.toString()) as unknown;
    if (!isContent(content)) return undefined;
    const { key_id: keyId, ciphertext, annotations, kcv } = content;
    return { kcv, wrapped: { line, keyId, ciphertext, annotations } };
  } catch {
    return undefined;
  }
}

/** The line of a wrapped master key. @param now epoch milliseconds */
export function formatWrappedKey(wrapped: Omit<WrappedKey, 'line'>, kcv: string, now: number): string {
  const { keyId: key_id, ciphertext, annotations } = wrapped;
  const content: Content = { key_id, ciphertext, annotations, kcv, created_at: new Date(now).toISOString() };
  return marker + Buffer.from(JSON.stringify(content)).toString('base64url');
}

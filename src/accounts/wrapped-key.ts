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

/** The JSON in a line. */
interface Content extends Pick<WrappedKey, 'ciphertext' | 'annotations'> {
  readonly key_id: string;
  readonly kcv: string;
  readonly created_at: string;
}

const isText = (value: unknown, pattern = /^/): boolean => typeof value === 'string' && pattern.test(value);
const isBase64 = (value: unknown): boolean =>
  isText(value) && (value === '' || decodeBase64(String(value)) !== undefined);

// By hand, because a running sidecar holds this module in memory, and no parser of configurations.
const members: Readonly<Record<keyof Content, (value: unknown) => boolean>> = {
  key_id: (value) => isText(value),
  ciphertext: isBase64,
  annotations: (value) => typeof value === 'object' && value !== null && Object.values(value).every(isBase64),
  kcv: (value) => isText(value, /^[0-9a-f]{10}$/),
  created_at: (value) => isText(value, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/),
};

export function isWrappedLine(line: string): boolean {
  return line.startsWith(marker);
}

/** The wrapped key of a line, and the key check value of what is in it; undefined if the line is invalid. */
export function parseWrappedKey(line: string): { readonly kcv: string; readonly wrapped: WrappedKey } | undefined {
  const written = line.slice(marker.length);
  const bytes = Buffer.from(written, 'base64url');
  if (bytes.toString('base64url') !== written) return undefined;
  try {
    const content = JSON.parse(bytes.toString()) as Record<keyof Content, unknown>;
    const tests = Object.entries(members);
    if (Object.keys(content).length !== tests.length) return undefined;
    if (!tests.every(([name, test]) => test(content[name as keyof Content]))) return undefined;
    const { key_id: keyId, ciphertext, annotations, kcv } = content as Content;
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

import { decodeBase64 } from '../envelope/encoding.ts';
import { readMembers } from '../input/json.ts';

const marker = 'kms:v1:';

/** A master key that a KMS has wrapped. The line with the key contains these members as JSON. They contain no secrets. */
export interface WrappedKey {
  /** The KMS's name for the key with which it wrapped the master key. */
  readonly key_id: string;
  /** In base64, like the values of the annotations. */
  readonly ciphertext: string;
  /** Values that the KMS returned with the ciphertext. They are passed back to the KMS unchanged. */
  readonly annotations: Readonly<Record<string, string>>;
  /** The key check value of the master key. */
  readonly kcv: string;
  readonly created_at: string;
}

const isBase64 = (value: unknown): boolean => typeof value === 'string' && decodeBase64(value) !== undefined;
const isText = (pattern: RegExp) => (value: unknown) => typeof value === 'string' && pattern.test(value);

// The members are checked by hand, because a running sidecar loads this module but not the library that parses configurations.
const members: Readonly<Record<keyof WrappedKey, (value: unknown) => boolean>> = {
  key_id: isText(/./),
  ciphertext: (value) => value !== '' && isBase64(value),
  annotations: (value) => typeof value === 'object' && value !== null && Object.values(value).every(isBase64),
  kcv: isText(/^[0-9a-f]{10}$/),
  created_at: isText(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/),
};

/** Parses the line of a wrapped key; undefined if the line is anything else. */
export function parseWrappedKey(line: string): WrappedKey | undefined {
  const bytes = Buffer.from(line.slice(marker.length), 'base64url');
  // Node's decoder skips unknown characters, so the line is compared with its re-encoded bytes.
  if (marker + bytes.toString('base64url') !== line) return undefined;
  const key = readMembers(bytes.toString());
  const tests = Object.entries(members);
  const isWhole = Object.keys(key).length === tests.length && tests.every(([name, test]) => test(key[name]));
  return isWhole ? (key as unknown as WrappedKey) : undefined;
}

export function formatWrappedKey(key: WrappedKey): string {
  return marker + Buffer.from(JSON.stringify(key)).toString('base64url');
}

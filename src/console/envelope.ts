/** How an envelope's `data` is encoded. */
export type Encoding = 'hex' | 'base64';

/** An account's key and IV, as shown on its page. */
export interface Credentials {
  readonly key: string;
  readonly iv: string;
}

/** Why an envelope cannot be opened, as far as the browser can tell. For `unopened`, only the sidecar's diagnosis can name the cause. */
export type Fault = 'key_length' | 'iv_length' | 'data_missing' | 'encoding' | 'length' | 'unopened';

type Opened = { readonly text: string } | { readonly fault: Fault };

const blockBytes = 16;
const encoder = new TextEncoder();

/**
 * Finds the mistake in a key or an IV in text form. A key must have 32 bytes. An IV must have at least 16 characters, of which the first 16
 * are used and must be 16 bytes.
 */
export function findFault({ key, iv }: Credentials): Fault | undefined {
  if (encoder.encode(key).length !== 32) return 'key_length';
  return encoder.encode(iv.slice(0, 16)).length === blockBytes ? undefined : 'iv_length';
}

/** Seals text in the browser with AES-256-CBC and PKCS#7 padding. Returns the `data` of an envelope. */
export async function seal(text: string, credentials: Credentials, encoding: Encoding): Promise<string> {
  const { key, iv } = await imported(credentials);
  const sealed = new Uint8Array(await crypto.subtle.encrypt({ name: 'AES-CBC', iv }, key, encoder.encode(text)));
  return encoding === 'hex' ? sealed.toHex() : sealed.toBase64();
}

/**
 * Opens an envelope in the browser.
 *
 * @param sent the whole envelope, or its `data` alone
 */
export async function open(sent: string, credentials: Credentials): Promise<Opened> {
  const data = readData(sent.trim());
  if (data === undefined) return { fault: 'data_missing' };
  const bytes = decode(data);
  if (bytes === undefined) return { fault: 'encoding' };
  if (bytes.length === 0 || bytes.length % blockBytes !== 0) return { fault: 'length' };
  const { key, iv } = await imported(credentials);
  try {
    const plain = await crypto.subtle.decrypt({ name: 'AES-CBC', iv }, key, bytes);
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(plain);
    if (isJson(text)) return { text };
  } catch {
    // The padding is wrong, or the bytes are not UTF-8.
  }
  return { fault: 'unopened' };
}

/** Lower-case hex SHA-256, for finding an API key without sending it. */
export async function sha256(text: string): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', encoder.encode(text))).toHex();
}

async function imported({ key, iv }: Credentials): Promise<{ key: CryptoKey; iv: Uint8Array<ArrayBuffer> }> {
  const imported = await crypto.subtle.importKey('raw', encoder.encode(key), 'AES-CBC', false, ['encrypt', 'decrypt']);
  return { key: imported, iv: encoder.encode(iv.slice(0, 16)) };
}

/** Finds the ciphertext in pasted text, which may be an envelope, a JSON string, or the bare ciphertext. */
export function readData(sent: string): string | undefined {
  if (!/^[{["]/.test(sent)) return sent === '' ? undefined : sent;
  try {
    const envelope: unknown = JSON.parse(sent);
    const data = typeof envelope === 'string' ? envelope : (envelope as { data?: unknown }).data;
    return typeof data === 'string' && data !== '' ? data : undefined;
  } catch {
    return undefined;
  }
}

function decode(data: string): Uint8Array<ArrayBuffer> | undefined {
  // The browser's decoder would skip white space, but the sidecar refuses it.
  if (/\s/.test(data)) return undefined;
  try {
    if (/^[0-9a-f]+$/i.test(data)) return Uint8Array.fromHex(data);
    return Uint8Array.fromBase64(data, { lastChunkHandling: 'strict' });
  } catch {
    return undefined;
  }
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

import { keyExchangeGroups, type HandshakeFault } from '../tls.ts';

/** Length of the header of a TLS record (RFC 8446 §5.1) in bytes: its type, its version and the length of its content. */
const recordHeader = 5;
const handshakeRecord = 22;
const majorVersion = 3;

/** Length of the header of a handshake message (RFC 8446 §4) in bytes: its type and its length. */
const messageHeader = 4;
const clientHello = 1;

/**
 * The maximum size of a client's first message in bytes. OpenSSL compares each key share with each group, so that its work grows with the
 * square of the size: 60 KB take 40 ms. Browsers send 2 KiB. A session ticket with a client certificate adds up to 3 KiB.
 */
export const maxHelloSize = 8_192;

/** Offsets and codes of RFC 8446 §4.1.2 and §4.2. */
const afterRandom = messageHeader + 2 + 32;
const supportedVersions = 43;
const keyShare = 51;
const tls13 = 0x0304;

/** What the first bytes from a client are. `incomplete`: more bytes are needed to tell. `accepted`: OpenSSL may process them. */
export type Hello = 'incomplete' | 'accepted' | HandshakeFault;

/**
 * Checks a client's first message (ClientHello) before OpenSSL processes it. The message must be in one record, as all common clients send
 * it, because OpenSSL would process the next records as soon as they arrive.
 *
 * A client that offers TLS 1.3 must have a share of a key exchange in a group that the listener accepts. Otherwise, OpenSSL would ask for a
 * second first message (HelloRetryRequest) and read up to 128 KiB of it.
 */
export function checkHello(bytes: Buffer): Hello {
  if (bytes.length < recordHeader) return 'incomplete';
  const [type, version] = bytes;
  if (type !== handshakeRecord || version !== majorVersion) return 'not_tls';
  const length = bytes.readUInt16BE(3);
  if (length < messageHeader || length > maxHelloSize) return 'other';
  if (bytes.length < recordHeader + length) return 'incomplete';
  const message = bytes.subarray(recordHeader, recordHeader + length);
  if (message[0] !== clientHello) return 'not_tls';
  if (message.readUIntBE(1, 3) !== length - messageHeader) return 'other';
  const extensions = readExtensions(message);
  if (extensions === undefined) return 'other';
  return isFinal(extensions) ? 'accepted' : 'unsupported';
}

/** The vector at an offset: its length, then its content (RFC 8446 §3.4). Undefined if bytes are missing. */
function vectorAt(bytes: Buffer, offset: number, lengthSize: 1 | 2): Buffer | undefined {
  const start = offset + lengthSize;
  if (start > bytes.length) return undefined;
  const end = start + bytes.readUIntBE(offset, lengthSize);
  return end > bytes.length ? undefined : bytes.subarray(start, end);
}

/** The content of the extensions that are checked, by type. Undefined if the message is not well-formed. */
function readExtensions(message: Buffer): ReadonlyMap<number, Buffer> | undefined {
  let offset = afterRandom;
  // The session id, the cipher suites and the compression methods.
  for (const lengthSize of [1, 2, 1] as const) {
    const skipped = vectorAt(message, offset, lengthSize);
    if (skipped === undefined) return undefined;
    offset += lengthSize + skipped.length;
  }
  const found = new Map<number, Buffer>();
  if (offset === message.length) return found;
  const all = vectorAt(message, offset, 2);
  if (all === undefined) return undefined;
  for (let at = 0; at < all.length;) {
    const content = vectorAt(all, at + 2, 2);
    if (content === undefined) return undefined;
    const type = all.readUInt16BE(at);
    if (type === supportedVersions || type === keyShare) found.set(type, content);
    at += 4 + content.length;
  }
  return found;
}

/** Whether OpenSSL can answer without asking for a second first message. */
function isFinal(extensions: ReadonlyMap<number, Buffer>): boolean {
  const versions = vectorAt(extensions.get(supportedVersions) ?? Buffer.of(0), 0, 1);
  if (versions === undefined) return false;
  let isTls13 = false;
  for (let at = 0; at + 1 < versions.length; at += 2) isTls13 ||= versions.readUInt16BE(at) === tls13;
  if (!isTls13) return true;
  const shares = vectorAt(extensions.get(keyShare) ?? Buffer.of(0, 0), 0, 2) ?? Buffer.alloc(0);
  for (let at = 0; at + 1 < shares.length;) {
    if (keyExchangeGroups.has(shares.readUInt16BE(at))) return true;
    const share = vectorAt(shares, at + 2, 2);
    if (share === undefined) return false;
    at += 4 + share.length;
  }
  return false;
}

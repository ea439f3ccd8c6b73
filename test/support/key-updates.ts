import { createCipheriv, createHmac } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { onTestFinished } from 'vitest';

/** A TLS 1.3 connection on which a client sends records that Node's own TLS cannot send. */
interface RawClient {
  /** The TCP socket below TLS. */
  readonly socket: Socket;
  /** Sends this many KeyUpdates (RFC 8446 §4.6.3) at once. */
  replaceKeys(count: number): void;
  /** Sends each piece, of at most 200 bytes, as a record of its own, all at once. */
  send(pieces: readonly string[]): void;
  /** What has arrived since the last call; null if nothing has. */
  received(): string | null;
}

/** HKDF-Expand-Label (RFC 8446 §7.1) without a context, for at most the length of one hash. */
function expand(secret: Buffer, label: string, length: number): Buffer {
  const name = `tls13 ${label}`;
  const info = Buffer.from(`\0${String.fromCharCode(length, name.length)}${name}\0\x01`, 'latin1');
  return createHmac('sha256', secret).update(info).digest().subarray(0, length);
}

/**
 * Seals a record (RFC 8446 §5.2).
 *
 * @param number the record's number under these keys
 * @param content the content, followed by the record's type
 */
function sealRecord(secret: Buffer, number: number, content: readonly number[]): Buffer {
  const head = Buffer.from([0x17, 3, 3, 0, content.length + 16]);
  const nonce = Buffer.from(expand(secret, 'iv', 12));
  nonce.writeUInt32BE((nonce.readUInt32BE(8) ^ number) >>> 0, 8);
  const cipher = createCipheriv('aes-128-gcm', expand(secret, 'key', 16), nonce).setAAD(head);
  const sealed = cipher.update(Buffer.from(content));
  cipher.final();
  return Buffer.concat([head, sealed, cipher.getAuthTag()]);
}

/** Opens a connection and completes the handshake, but sends nothing more. */
export async function openRaw13(port: number): Promise<RawClient> {
  const socket = connect(port, '127.0.0.1').on('error', () => {});
  onTestFinished(() => void socket.destroy());
  const [own, other] = duplexPair();
  other.on('data', (bytes: Buffer) => void socket.write(bytes));
  socket.on('data', (bytes: Buffer) => void other.write(bytes));
  const tls = connectTls({
    socket: own,
    rejectUnauthorized: false,
    minVersion: 'TLSv1.3',
    ciphers: 'TLS_AES_128_GCM_SHA256',
    ALPNProtocols: ['http/1.1'],
  }).on('error', () => {});
  let secret = Buffer.alloc(0);
  tls.on('keylog', (line: Buffer) => {
    const [label, , hex = ''] = line.toString().trim().split(' ');
    if (label === 'CLIENT_TRAFFIC_SECRET_0') secret = Buffer.from(hex, 'hex');
  });
  // The server sends session tickets once it has read the end of the handshake.
  await new Promise((resolve) => void tls.once('session', resolve));
  return {
    socket,
    replaceKeys: (count) => {
      const records: Buffer[] = [];
      for (let i = 0; i < count; i += 1) {
        // A KeyUpdate whose request is update_not_requested.
        records.push(sealRecord(secret, 0, [24, 0, 0, 1, 0, 0x16]));
        secret = Buffer.from(expand(secret, 'traffic upd', 32));
      }
      socket.write(Buffer.concat(records));
    },
    send: (pieces) => {
      const records = pieces.map((piece, number) => sealRecord(secret, number, [...Buffer.from(piece), 0x17]));
      socket.write(Buffer.concat(records));
    },
    received: () => tls.setEncoding('latin1').read() as string | null,
  };
}

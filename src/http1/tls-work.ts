import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { stopReading } from './reading.ts';

/**
 * How many bytes a client may send before its handshake is complete. OpenSSL waits for a message of up to 128 KiB and keeps what has
 * arrived of it; browsers need 2 KiB, and a client's certificate with its chain a few more.
 */
export const maxHandshakeSize = 32_768;

/** What `keylog` lines begin with: for new keys of a client, and for the keys of a handshake in TLS 1.2 and 1.3. */
const updateLabel = 'CLIENT_TRAFFIC_SECRET_N';
const handshakeLabels = /^CLIENT_(?:RANDOM|HANDSHAKE_TRAFFIC_SECRET) /;
const longestLabel = 'CLIENT_HANDSHAKE_TRAFFIC_SECRET '.length;

/** How often one client may replace its keys in `keyWindow` milliseconds. Clients normally do so after gigabytes or hours. */
const maxKeyUpdates = 8;
const keyWindow = 1_000;

interface KeyUpdates {
  count: number;
  readonly until: number;
}

/**
 * Calls back for each client that keeps OpenSSL busy without sending a byte of data: its socket must be closed, but in a later turn,
 * because OpenSSL is in the middle of a read. No other limit covers such work.
 *
 * - In TLS 1.3 a client may replace its keys as often as it likes (RFC 9846 §4.7.3). Each replacement takes 27 bytes and some 20 µs, so
 *   half a megabyte would stop everything else for half a second. OpenSSL has no limit, but reports new keys for debugging. From then on,
 *   nothing is read from the client: what is left is one read of 64 KiB.
 * - In TLS 1.2, a client may ask for another handshake, with a message of 128 KiB. Node reports this as an error of the socket.
 *
 * @param server a TLS server
 * @param stepped called when OpenSSL has made the keys of a handshake, which is most of its work
 */
export function limitTlsWork(
  server: EventEmitter,
  exceeded: (socket: TLSSocket) => void,
  stepped: (socket: TLSSocket) => void = () => {},
): void {
  const updates = new WeakMap<TLSSocket, KeyUpdates>();
  server.on('secureConnection', (socket: TLSSocket) => socket.disableRenegotiation());
  server.on('keylog', (line: Buffer, socket: TLSSocket) => {
    const label = line.toString('latin1', 0, longestLabel);
    // The rest of the line is the secret.
    line.fill(0);
    if (handshakeLabels.test(label)) stepped(socket);
    if (!label.startsWith(updateLabel)) return;
    const now = performance.now();
    const before = updates.get(socket);
    const current = before !== undefined && now < before.until ? before : { count: 0, until: now + keyWindow };
    if (current !== before) updates.set(socket, current);
    current.count += 1;
    if (current.count !== maxKeyUpdates + 1) return;
    stopReading(socket);
    exceeded(socket);
  });
}

/**
 * Closes a client's TLS, even between two records of one read: no more of them are decrypted. With `destroy` alone, all of them would be
 * decrypted, and Node has no public way to stop that.
 */
export function endTls(socket: Socket): void {
  (socket as { readonly _destroySSL?: () => void })._destroySSL?.();
  socket.destroy();
}

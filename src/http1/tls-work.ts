import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { stopReading } from './reading.ts';

/**
 * How many bytes a client may send before its handshake is complete. OpenSSL waits for a message of up to 128 KiB and keeps the part of it
 * that has arrived. Browsers need 2 KiB, and a client certificate with its chain needs a few KiB more.
 */
export const maxHandshakeSize = 32_768;

/**
 * The beginnings of `keylog` lines: `updateLabel` for a client's new keys, `handshakeLabels` for the keys of a handshake (TLS 1.2 and 1.3).
 */
const updateLabel = 'CLIENT_TRAFFIC_SECRET_N';
const handshakeLabels = /^CLIENT_(?:RANDOM|HANDSHAKE_TRAFFIC_SECRET) /;
const longestLabel = 'CLIENT_HANDSHAKE_TRAFFIC_SECRET '.length;

/** How many times one client may replace its keys within `keyWindow` milliseconds. Clients normally do so only after gigabytes or hours. */
const maxKeyUpdates = 2;
const keyWindow = 60_000;

/** How many times clients may derive or replace keys in a turn before other clients must wait. Thousands of clients may do so at once. */
const maxSteps = 8;

interface KeyUpdates {
  count: number;
  readonly until: number;
}

interface TlsWorkEvents {
  readonly exceeded: (socket: TLSSocket) => void;
  /** OpenSSL has derived or replaced keys so often in this turn that other clients must wait. The socket is the one of the latest client. */
  readonly crowded?: (socket: TLSSocket) => void;
  /** OpenSSL has derived the keys of a handshake, which is most of its work. */
  readonly derived?: (socket: TLSSocket) => void;
}

/**
 * Calls `exceeded` for each client that keeps OpenSSL busy without sending a byte of data. The client's socket must then be closed, but in
 * a later turn, because OpenSSL is in the middle of a read. No other limit covers such work.
 *
 * - In TLS 1.3, a client may replace its keys as often as it likes (RFC 9846 §4.7.3). Each replacement takes 27 bytes and about 20 µs, so
 *   half a megabyte of them would stop everything else for half a second. OpenSSL has no limit, but reports new keys for debugging. When a
 *   client has replaced its keys too often, nothing more is read from that client, so that at most one read of 64 KiB is left to process.
 * - In TLS 1.2, a client may ask for another handshake, with a message of 128 KiB. Such handshakes are disabled here. Node reports an
 *   attempt as an error of the socket, but OpenSSL has signed its answer by then.
 *
 * @param server a TLS server
 */
export function limitTlsWork(server: EventEmitter, { exceeded, crowded, derived }: TlsWorkEvents): void {
  let steps = 0;
  const updates = new WeakMap<TLSSocket, KeyUpdates>();
  // All sockets share this function, because a closure for each of them would take up memory.
  function onError(this: TLSSocket, { code }: NodeJS.ErrnoException): void {
    if (code === 'ERR_TLS_RENEGOTIATION_DISABLED') exceeded(this);
  }
  server.on('secureConnection', (socket: TLSSocket) => {
    socket.disableRenegotiation();
    socket.on('error', onError);
  });
  server.on('keylog', (line: Buffer, socket: TLSSocket) => {
    const label = line.toString('latin1', 0, longestLabel);
    // The rest of the line is the secret, so the line is erased.
    line.fill(0);
    const isHandshake = handshakeLabels.test(label);
    const isUpdate = label.startsWith(updateLabel);
    if (!isHandshake && !isUpdate) return;
    if (steps === 0) setImmediate(() => (steps = 0));
    steps += 1;
    if (steps > maxSteps) crowded?.(socket);
    if (isHandshake) derived?.(socket);
    if (!isUpdate) return;
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
 * Closes a client's TLS connection, even between two records of one read, so that no further records are decrypted. `destroy` alone would
 * let all of them be decrypted, and Node has no public way to stop that.
 */
export function endTls(socket: Socket): void {
  (socket as { readonly _destroySSL?: () => void })._destroySSL?.();
  socket.destroy();
}

import type { Socket } from 'node:net';
import { appended, nothing, type Queue } from './incoming.ts';
import { startReading, stopReading } from './reading.ts';

/** Length of the header of a TLS record (RFC 8446, 5.1) in bytes: its type, its version and the length of its content. */
const headerLength = 5;
const handshakeType = 22;
const majorVersion = 3;
const maxContent = 16_384;

/**
 * Calls back with true when the first TLS record from a client is complete. The record can then still be read from the socket. Calls back
 * with false when the bytes cannot be a TLS handshake record. Destroys the socket if the client leaves before that.
 *
 * @param parts the queue for clients that have sent only part of the record, because thousands of clients may each send a byte at a time
 */
export function whenHelloArrives(socket: Socket, parts: Queue, callback: (isTls: boolean) => void): void {
  let bytes = nothing;
  let withdraw: (() => void) | undefined;
  const readOn = (): void => {
    withdraw = undefined;
    startReading(socket);
  };
  const onReadable = (): void => {
    const part = socket.read() as Buffer | null;
    if (part === null) return;
    bytes = appended(bytes, part);
    const isTls = isHello(bytes);
    if (isTls === undefined) {
      if (withdraw !== undefined) return;
      stopReading(socket);
      withdraw = parts.add(readOn);
      return;
    }
    socket.off('readable', onReadable).off('end', onEnd);
    if (withdraw !== undefined) {
      withdraw();
      readOn();
    }
    socket.unshift(bytes);
    callback(isTls);
  };
  const onEnd = (): void => void socket.destroy();
  socket
    .on('readable', onReadable)
    .on('end', onEnd)
    .once('close', () => withdraw?.());
}

/** Whether the bytes are a complete first record; undefined if more bytes are needed to tell. */
function isHello(bytes: Buffer): boolean | undefined {
  if (bytes.length < headerLength) return undefined;
  const [type, version] = bytes;
  const length = bytes.readUInt16BE(3);
  if (type !== handshakeType || version !== majorVersion || length > maxContent) return false;
  return bytes.length >= headerLength + length ? true : undefined;
}

import type { Socket } from 'node:net';

/** Bytes before the content of a TLS record (RFC 8446, 5.1): its type, its version and the length of its content. */
const headerLength = 5;
const handshakeType = 22;
const majorVersion = 3;
const maxContent = 16_384;

/**
 * Calls back when the first TLS record of a client is complete, and still to be read from the socket, or with false when it can be none. A
 * client that sends less waits for nothing but more of it. Destroys the socket of a client that leaves before.
 */
export function whenHelloArrives(socket: Socket, callback: (isTls: boolean) => void): void {
  let header: Buffer | null = null;
  const onReadable = (): void => {
    header ??= socket.read(headerLength) as Buffer | null;
    // Fewer bytes are left only at the end, which follows.
    if (header === null || header.length < headerLength) return;
    const [type, version] = header;
    const length = header.readUInt16BE(3);
    const isTls = type === handshakeType && version === majorVersion && length <= maxContent;
    if (isTls && socket.readableLength < length) return;
    socket.off('readable', onReadable).off('end', onEnd);
    socket.unshift(header);
    callback(isTls);
  };
  const onEnd = (): void => void socket.destroy();
  socket.on('readable', onReadable).on('end', onEnd);
}

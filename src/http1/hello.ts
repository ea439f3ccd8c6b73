import type { Socket } from 'node:net';
import { appended, nothing, type Queue } from './incoming.ts';
import { startReading, stopReading } from './reading.ts';
import type { HandshakeFault } from '../tls.ts';
import { checkHello } from './client-hello.ts';

/** The record with the fatal alert `handshake_failure` (RFC 8446 §6). */
const handshakeFailure = Buffer.of(21, 3, 3, 0, 2, 2, 40);

/**
 * Calls back when a client's first TLS message has arrived, or with the fault if the client is refused for it. The message can then still
 * be read from the socket. Destroys the socket if the client leaves before that.
 *
 * @param parts the queue for clients that have sent only part of the record, because thousands of clients may each send a byte at a time
 */
export function whenHelloArrives(
  socket: Socket,
  parts: Queue,
  callback: (fault: HandshakeFault | undefined) => void,
): void {
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
    const hello = checkHello(bytes);
    if (hello === 'incomplete') {
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
    if (hello !== 'accepted' && hello !== 'not_tls') socket.write(handshakeFailure);
    callback(hello === 'accepted' ? undefined : hello);
  };
  const onEnd = (): void => void socket.destroy();
  socket
    .on('readable', onReadable)
    .on('end', onEnd)
    .once('close', () => withdraw?.());
}

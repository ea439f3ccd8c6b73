import type { Socket } from 'node:net';
import { appended, nothing, type Queue } from './incoming.ts';
import { startReading, stopReading } from './reading.ts';
import type { HandshakeFault, OnHandshakeFailure } from '../tls.ts';
import type { CertificateTurns } from './certificate-turns.ts';
import { checkHello } from './client-hello.ts';

/** The record with the fatal alert `handshake_failure` (RFC 8446 §6). */
const handshakeFailure = Buffer.of(21, 3, 3, 0, 2, 2, 40);

interface HandshakeOptions {
  /** The queue for clients that have sent only part of the record, because thousands of clients may each send a byte at a time. */
  readonly hellos: Queue;
  /** The turns of a listener that requires client certificates. */
  readonly turns: CertificateTurns | undefined;
  /** The queue in which handshakes begin, because each takes milliseconds and thousands of clients may send their first bytes at once. */
  readonly handshakes: Queue;
  readonly failed: OnHandshakeFailure;
}

/**
 * Calls `begin` when a client's first TLS message has arrived and been accepted, and it is the client's turn. The message can then still be
 * read from the socket. Until then, a client that is refused or leaves is reported, and its socket destroyed.
 *
 * @returns refuses the client; must not be called after `begin`
 */
export function whenHandshakeBegins(
  socket: Socket,
  { hellos, turns, handshakes, failed }: HandshakeOptions,
  begin: () => void,
): (fault: HandshakeFault) => void {
  const refuse = (fault: HandshakeFault): void => {
    if (socket.bytesRead > 0) failed(fault, socket.remoteAddress);
    socket.destroy();
  };
  const leave = (): void => refuse('client_left');
  const queue = (begun?: () => void): void => {
    const start = (): void => {
      begun?.();
      socket.off('error', leave).off('end', leave);
      begin();
    };
    socket.once('close', handshakes.add(start));
  };
  socket.once('error', leave).once('end', leave);
  whenHelloArrives(socket, hellos, (fault) => {
    if (fault !== undefined) refuse(fault);
    else if (turns === undefined) queue();
    else turns.add(socket, queue);
  });
  return refuse;
}

/** Calls back when a client's first TLS message has arrived, or with the fault if the client is refused for it. */
function whenHelloArrives(socket: Socket, parts: Queue, callback: (fault: HandshakeFault | undefined) => void): void {
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
    socket.off('readable', onReadable);
    if (withdraw !== undefined) {
      withdraw();
      readOn();
    }
    socket.unshift(bytes);
    if (hello !== 'accepted' && hello !== 'not_tls') socket.write(handshakeFailure);
    callback(hello === 'accepted' ? undefined : hello);
  };
  socket.on('readable', onReadable).once('close', () => withdraw?.());
}

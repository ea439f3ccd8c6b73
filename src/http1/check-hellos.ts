import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { OnHandshakeFailure, HandshakeFault } from '../tls.ts';
import type { CertificateTurns } from './certificate-turns.ts';
import { whenHelloArrives } from './hello.ts';
import { nextTurn } from './incoming.ts';

interface CheckHellosOptions {
  /** How long a client may take until its handshake begins, in milliseconds. */
  readonly patience: number;
  /** The turns in which handshakes begin; undefined if they begin at once. */
  readonly turns: CertificateTurns | undefined;
  readonly failed: OnHandshakeFailure;
}

/** Lets a TLS server of Node's check each client's first message before its handshake begins. */
export function checkHellos(server: EventEmitter, { patience, turns, failed }: CheckHellosOptions): void {
  const listeners = server.listeners('connection');
  server.removeAllListeners('connection').on('connection', (socket: Socket) => {
    const refuse = (fault: HandshakeFault): void => {
      if (socket.bytesRead > 0) failed(fault, socket.remoteAddress);
      socket.destroy();
    };
    const overdue = setTimeout(() => refuse('timeout'), patience).unref();
    const leave = (): void => refuse('client_left');
    socket.once('error', leave).once('end', leave);
    socket.once('close', () => clearTimeout(overdue));
    whenHelloArrives(socket, nextTurn, (fault) => {
      if (fault !== undefined) {
        refuse(fault);
        return;
      }
      const begin = (): void => {
        clearTimeout(overdue);
        socket.off('error', leave).off('end', leave);
        for (const listener of listeners) listener.call(server, socket);
      };
      if (turns === undefined) begin();
      else turns.add(socket, begin);
    });
  });
}

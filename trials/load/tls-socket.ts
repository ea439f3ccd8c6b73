import { connect, type Socket } from 'node:net';
import { connect as connectTls, TLSSocket } from 'node:tls';
import type { Certificate } from '../../test/support/certificates.ts';

/** The certificates of one side of a connection, in PEM. */
export interface PeerTls extends Certificate {
  readonly ca: string;
}

/** Connects to a loopback port, with or without TLS. */
export function connectTo(port: number, tls: PeerTls | undefined, localAddress = '127.0.0.1'): Socket {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  socket.setNoDelay(true);
  if (tls === undefined) return socket;
  return connectTls({ socket, ...tls });
}

/** Puts TLS around a server's socket. The client must present a certificate. */
export function securedByServer(socket: Socket, { ca, cert, key }: PeerTls): TLSSocket {
  const options = { isServer: true, ca, cert, key, requestCert: true, rejectUnauthorized: true };
  socket.on('error', () => {});
  return new TLSSocket(socket, options);
}

/** The event after which a socket can be written to. */
export function readyEvent(tls: PeerTls | undefined): 'connect' | 'secureConnect' {
  return tls === undefined ? 'connect' : 'secureConnect';
}

/** Ends a connection with a reset. Node cannot reset a TLS socket, so a TLS socket is closed without a close_notify instead. */
export function reset(socket: Socket): void {
  if (socket instanceof TLSSocket) socket.destroy();
  else socket.resetAndDestroy();
}

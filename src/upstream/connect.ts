import { connect as connectPlain, type OnReadOpts, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { UpstreamAddress } from './address.ts';

/** Receives what becomes of an attempt to connect. One of the two is called, once. */
export interface ConnectHandler {
  /** @param onData is to be set to what takes in the bytes that come; they may be overwritten afterwards */
  onConnected(socket: Socket): (bytes: Buffer) => void;
  /** @param cause an error's code, for the log; `ETIMEDOUT` if the time was over */
  onUnconnected(cause: string): void;
}

/**
 * Opens a connection to the upstream.
 *
 * @param timeout milliseconds for TCP and TLS together
 * @param buffer where it reads into; may be shared by all connections
 */
export function connect(address: UpstreamAddress, timeout: number, buffer: Buffer, handler: ConnectHandler): void {
  let cause = 'ECONNCLOSED';
  let receive: ((bytes: Buffer) => void) | undefined;
  const socket = open(address, {
    buffer,
    callback: (length, { buffer: memory, byteOffset }) => {
      receive?.(Buffer.from(memory, byteOffset, length));
      return true;
    },
  });
  const timer = setTimeout(() => {
    cause = 'ETIMEDOUT';
    socket.destroy();
  }, timeout);
  const onError = (error: Error & { code?: string }): void => {
    cause = error.code ?? error.name;
  };
  const onClose = (): void => {
    clearTimeout(timer);
    handler.onUnconnected(cause);
  };
  socket.once('error', onError).once('close', onClose);
  socket.once('encrypted' in socket ? 'secureConnect' : 'connect', () => {
    clearTimeout(timer);
    socket.off('error', onError).off('close', onClose);
    receive = handler.onConnected(socket);
  });
}

function open(address: UpstreamAddress, onread: OnReadOpts): Socket {
  const { protocol, host, port, servername, socketPath, ca, cert, key } = address;
  if (socketPath !== undefined) return connectPlain({ path: socketPath, onread });
  if (protocol === 'http:') return connectPlain({ host, port, onread });
  // Node takes it here, too, though its types do not say so.
  const reading = { onread };
  return connectTls({
    ...reading,
    host,
    port,
    // The name the certificate must have is the configuration's.
    ...(servername === '' ? {} : { servername }),
    ALPNProtocols: ['http/1.1'],
    minVersion: 'TLSv1.2',
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  });
}

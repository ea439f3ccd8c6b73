import type { TLSSocket } from 'node:tls';
import { finished } from 'node:stream';
import type { UpstreamTarget } from '../config/config.ts';
import { addressOf } from './address.ts';
import { open } from './connect.ts';

/** What an upstream responded to a connection. */
export type Probe =
  | { readonly ok: true; readonly certificateEnds: number | undefined }
  /** A code of the system or of TLS, or `timeout`. */
  | { readonly ok: false; readonly reason: string };

/**
 * Connects to an upstream, with TLS if it is configured, sends nothing and disconnects.
 *
 * @param timeout milliseconds for TCP and TLS together
 * @returns `certificateEnds`: epoch milliseconds, undefined without TLS
 */
export function probe(target: UpstreamTarget, timeout: number): Promise<Probe> {
  const address = addressOf(target);
  const isTls = address.protocol === 'https:';
  return new Promise((resolve) => {
    const socket = open(address, { buffer: Buffer.alloc(1), callback: () => true });
    const end = (result: Probe): void => {
      clearTimeout(timer);
      resolve(result);
      socket.destroy();
    };
    const timer = setTimeout(() => end({ ok: false, reason: 'timeout' }), timeout);
    socket.once(isTls ? 'secureConnect' : 'connect', () => {
      const certificateEnds = isTls ? Date.parse((socket as TLSSocket).getPeerCertificate().valid_to) : undefined;
      end({ ok: true, certificateEnds });
    });
    finished(socket, (error) => end({ ok: false, reason: reasonOf(error) }));
  });
}

function reasonOf(error: NodeJS.ErrnoException | null | undefined): string {
  return error?.code ?? error?.message ?? 'the connection was closed';
}

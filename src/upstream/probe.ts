import type { TLSSocket } from 'node:tls';
import type { UpstreamTarget } from '../config/config.ts';
import { parseAddress, connect } from './connect.ts';

/** The outcome of an attempt to connect to an upstream. */
type Probe =
  /** `certificateEnds`: epoch milliseconds, undefined without TLS. */
  | { readonly ok: true; readonly certificateEnds: number | undefined }
  /** `reason`: an error's code. */
  | { readonly ok: false; readonly reason: string };

/**
 * Connects to an upstream, with TLS if it is configured, sends nothing and disconnects.
 *
 * @param timeout milliseconds for TCP and TLS together
 */
export function probe(target: UpstreamTarget, timeout: number): Promise<Probe> {
  return new Promise((resolve) => {
    connect(parseAddress(target), timeout, Buffer.alloc(1), {
      onConnected(socket) {
        const certificateEnds =
          'encrypted' in socket ? Date.parse((socket as TLSSocket).getPeerCertificate().valid_to) : undefined;
        socket.on('error', () => {}).destroy();
        resolve({ ok: true, certificateEnds });
        return () => {};
      },
      onConnectFailed(reason) {
        resolve({ ok: false, reason });
      },
    });
  });
}

import type { TlsOptions } from 'node:tls';
import type { EpochMs } from '../times.ts';
import type { OnHandshakeFailure } from '../tls.ts';
import type { ConnectionLimits } from './connection-handler.ts';
import type { Queue } from './incoming.ts';

export interface ListenerOptions {
  readonly limits: ConnectionLimits;
  /** The listener's certificate, and whether clients must present one; undefined if TLS is off. */
  readonly tls: TlsOptions | undefined;
  /** The clock for the `Date` field. */
  readonly clock: () => EpochMs;
  /** The queue in which TLS handshakes wait before they begin. By default, they wait until the next turn of the event loop. */
  readonly handshakes?: Queue;
  /** The queue for clients that have sent only part of their first TLS record. By default, they wait until the next turn. */
  readonly hellos?: Queue;
  /** Called for each TLS handshake that fails because of the client. */
  readonly onHandshakeFailure?: OnHandshakeFailure;
}

import type { Pair } from '../load/pair.ts';
import type { PeerTls } from '../load/tls-socket.ts';

/** The targets of the clients. */
export interface Targets {
  readonly pair: Pair;
  readonly port: number;
  readonly tls: PeerTls;
  /** Returns a unique id. */
  readonly id: () => string;
}

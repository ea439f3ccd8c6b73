import type { Socket } from 'node:net';
import type { GatewayRequest } from './gateway-request.ts';

/** What the gateway keeps of a client's connection. */
export class ClientConnection {
  /** The last request whose response is not complete. */
  current: GatewayRequest | undefined;
  /** Pipelined requests that wait for their turn. */
  waiting = 0;
  /** Whether something that is no request stands behind one whose response is not complete. */
  faulty = false;
}

/** On the socket itself: a map would get an entry for each connection, and promote them all (see `LinkedList`). */
const kept = Symbol('client connection');

/** The state of a client's connection, made when it is first asked for. */
export function connectionOf(socket: Socket & { [kept]?: ClientConnection }): ClientConnection {
  return (socket[kept] ??= new ClientConnection());
}

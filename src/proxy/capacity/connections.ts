import type { ServerConnection } from '../../http1/connection.ts';
import type { Closings } from '../../telemetry/closings.ts';
import type { Budgets } from './budgets.ts';
import { ClientConnection, type ConnectionContext, type RequestServer } from './client-connection.ts';
import { Eviction } from './eviction.ts';

/** The open connections of clients, up to a limit. */
export class ClientConnections implements ConnectionContext {
  readonly budgets: Budgets;
  readonly closings: Closings;
  readonly server: RequestServer;
  readonly eviction = new Eviction();

  constructor(budgets: Budgets, closings: Closings, server: RequestServer) {
    this.budgets = budgets;
    this.closings = closings;
    this.server = server;
  }

  /**
   * Admits a new connection. If the limit is reached, the connection that has been idle longest without ever carrying a valid key is closed
   * to make room.
   *
   * @returns undefined if there is no such connection; the new connection must then be closed
   */
  open(http: ServerConnection, peer: string): ClientConnection | undefined {
    const { anonymous, connections } = this.budgets;
    if (connections.take(1, anonymous.none) !== undefined) {
      this.eviction.closeLongestIdle();
      if (connections.take(1, anonymous.none) !== undefined) {
        this.closings.count('limit');
        return undefined;
      }
    }
    return new ClientConnection(http, peer, this);
  }
}

import { Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { ServerConnection } from '../../src/http1/connection.ts';
import { Listener } from '../../src/http1/listener.ts';
import { Budgets } from '../../src/proxy/capacity/budgets.ts';
import { ClientConnection, type ConnectionContext } from '../../src/proxy/capacity/client-connection.ts';
import { Eviction } from '../../src/proxy/capacity/eviction.ts';
import { Closings } from '../../src/telemetry/closings.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { configOf } from './sidecar.ts';

/** Creates client connections without an open listener, and their budgets. @param more limits that differ from the defaults */
export function createConnections(more: Partial<Parameters<Budgets['resize']>[0]> = {}) {
  const limits = { ...configOf('http://127.0.0.1:1').limits, ...more };
  const budgets = new Budgets(limits, true);
  const closings = new Closings({ connectionClosed: () => {} }, createLogger('silent', { write: () => {} }));
  const server = { serve: () => {}, onError: () => {} };
  const all: ConnectionContext = { budgets, closings, server, eviction: new Eviction() };
  const times = { maxHeadSize: 1, maxFields: 1, headTimeout: 1, idleTimeout: 1, lingerTimeout: 1 };
  const listener = new Listener({ limits: times, tls: undefined, clock: Date.now }, () => undefined);
  listener.close();
  onTestFinished(() => budgets.stop());
  const open = (): ClientConnection => {
    if (budgets.connections.take(1, budgets.anonymous.none) !== undefined) throw new Error('too many connections');
    return new ClientConnection(new ServerConnection(new Socket(), false, listener), '127.0.0.1', all);
  };
  return { all, budgets, limits, open };
}

import { Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { ServerConnection } from '../../src/http1/connection.ts';
import { Listener } from '../../src/http1/listener.ts';
import { Budgets } from '../../src/proxy/capacity/budgets.ts';
import type { ClientConnection } from '../../src/proxy/capacity/client-connection.ts';
import { ClientConnections } from '../../src/proxy/capacity/connections.ts';
import { Closings } from '../../src/telemetry/closings.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { configOf } from './sidecar.ts';

/** Creates client connections without an open listener, and their budgets. @param more limits that differ from the defaults */
export function createConnections(more: Partial<Parameters<Budgets['resize']>[0]> = {}) {
  const limits = { ...configOf('http://127.0.0.1:1').limits, ...more };
  const budgets = new Budgets(limits, true);
  const closings = new Closings({ connectionClosed: () => {} }, createLogger('silent', { write: () => {} }));
  const all = new ClientConnections(budgets, closings, { serve: () => {}, onError: () => {} });
  const times = { maxHeadSize: 1, maxFields: 1, headTimeout: 1, idleTimeout: 1, lingerTimeout: 1 };
  const listener = new Listener({ limits: times, tls: undefined, clock: Date.now }, () => undefined);
  listener.close();
  onTestFinished(() => budgets.stop());
  const open = (): ClientConnection => {
    const client = all.open(new ServerConnection(new Socket(), false, listener), '127.0.0.1');
    if (client === undefined) throw new Error('too many connections');
    return client;
  };
  return { all, budgets, limits, open };
}

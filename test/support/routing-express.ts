import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express, { Router, type RequestHandler } from 'express';
import { onTestFinished } from 'vitest';
import type { Kind, RoutingUpstream } from './routing-upstreams.ts';

const response =
  (kind: Kind): RequestHandler =>
  (request, response) => {
    response.set({ 'X-Resource': kind, 'X-Target': request.originalUrl }).send('ok');
  };

/**
 * Starts Express with its default options, which are its most lenient ones: letter case and a trailing slash are ignored. It routes in all
 * three ways: by a path, by a prefix and by a separate router below a prefix.
 */
export async function startRoutingExpress(): Promise<RoutingUpstream> {
  const seen: string[] = [];
  const app = express();
  app.use((request, _response, next) => {
    seen.push(request.get('X-Request-Id') ?? '');
    next();
  });
  app.all('/api/v1/transactions/initialize', response('plain public'));
  const s2s = Router();
  s2s.all('/checkout/:id', response('sealed public'));
  s2s.use('/webhooks', response('plain public'));
  s2s.all(['/', '/*path'], response('sealed secret'));
  app.use('/api/s2s', s2s);
  app.use(response('plain secret'));
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { address: { host: '127.0.0.1', port: (server.address() as AddressInfo).port }, seen: () => seen };
}

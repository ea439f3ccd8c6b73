import { posix } from 'node:path';
import fastify, { type FastifyReply, type FastifyRequest } from 'fastify';
import { onTestFinished } from 'vitest';
import { startNginx } from './nginx.ts';

/** The kind of a resource: whether its responses are sealed, and whether a public key suffices. */
export type Kind = 'sealed secret' | 'sealed public' | 'plain secret' | 'plain public';

/** The resources that are not `plain secret`, by the path as an upstream reads it. The first match counts. */
const resources: readonly (readonly [pattern: string, kind: Kind])[] = [
  ['^/api/v1/transactions/initialize/?$', 'plain public'],
  ['^/api/s2s/checkout/[^/]+/?$', 'sealed public'],
  ['^/api/s2s/webhooks(/|$)', 'plain public'],
  ['^/api/s2s(/|$)', 'sealed secret'],
];
const otherwise: Kind = 'plain secret';

/**
 * A real upstream whose responses show how it routed the request: `X-Resource` has the kind of the resource, `X-Target` the target as it
 * was sent.
 */
export interface RoutingUpstream {
  readonly address: { readonly path: string } | { readonly host: string; readonly port: number };
  /** The ids of the requests that the upstream has seen, in any order. */
  readonly seen: () => readonly string[];
}

/**
 * Starts nginx with a location for each resource, whatever the letter case. `X-Exact` is the kind according to case-sensitive locations;
 * `X-Path` is the path as nginx has normalised it, in angle brackets.
 */
export async function startRoutingNginx(): Promise<RoutingUpstream> {
  const locations = [...resources.map(([pattern, kind]) => [`~* ${pattern}`, kind]), ['/', otherwise]].map(
    ([location, kind]) => `
      location ${location} {
        add_header X-Resource "${kind}" always;
        add_header X-Exact "$exact" always;
        add_header X-Target "$request_uri" always;
        add_header X-Path "<$uri>" always;
        return 200 ok;
      }`,
  );
  const exact = resources.map(([pattern, kind]) => `"~${pattern}" "${kind}";`);
  const nginx = await startNginx(
    `map $uri $exact { ${exact.join(' ')} default "${otherwise}"; }
    server { listen @listen@; ${locations.join('')} }`,
    '$http_x_request_id',
  );
  return { address: { path: nginx.socketPath }, seen: nginx.accessLines };
}

/** Starts Fastify with its most lenient options. */
export async function startRoutingFastify(): Promise<RoutingUpstream> {
  const seen: string[] = [];
  const core = fastify({
    routerOptions: { caseSensitive: false, ignoreTrailingSlash: true, ignoreDuplicateSlashes: true },
  });
  core.addHook('onRequest', (request, _reply, done) => {
    seen.push(String(request.headers['x-request-id']));
    done();
  });
  const response =
    (kind: Kind) =>
    (request: FastifyRequest, reply: FastifyReply): string => {
      reply.headers({ 'X-Resource': kind, 'X-Target': request.raw.url });
      return 'ok';
    };
  core.all('/api/v1/transactions/initialize', response('plain public'));
  core.all('/api/s2s/checkout/:id', response('sealed public'));
  for (const path of ['/api/s2s/webhooks', '/api/s2s/webhooks/*']) core.all(path, response('plain public'));
  for (const path of ['/api/s2s', '/api/s2s/*']) core.all(path, response('sealed secret'));
  core.setNotFoundHandler(response(otherwise));
  await core.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => core.close());
  const { port } = core.server.address() as { port: number };
  return { address: { host: '127.0.0.1', port }, seen: () => seen };
}

/** The kind of the resource with this path, which is already normalised. */
export function kindAt(path: string): Kind {
  return resources.find(([pattern]) => new RegExp(pattern, 'i').test(path))?.[1] ?? otherwise;
}

/** The target up to the first of these characters. */
const before = (characters: RegExp, target: string): string => target.split(characters, 1)[0] ?? '';

/** Ways in which programs derive a path from a target. Each is the most lenient one known of its kind. */
export const readings: Readonly<Record<string, (target: string) => string>> = {
  'the URL parser of browsers and Node': (target) => decodeURIComponent(new URL(target, 'http://core').pathname),
  'decoding, then resolving dots and slashes': (target) => posix.normalize(decodeURIComponent(before(/\?/, target))),
  'decoding twice, then resolving': (target) =>
    posix.normalize(decodeURIComponent(decodeURIComponent(before(/\?/, target)))),
  'resolving, then decoding': (target) => decodeURIComponent(posix.normalize(before(/\?/, target))),
  'leaving parameters of segments out': (target) =>
    posix.normalize(decodeURIComponent(before(/\?/, target).replaceAll(/;[^/]*/g, ''))),
  'taking backslashes for slashes': (target) =>
    posix.normalize(decodeURIComponent(before(/\?/, target)).replaceAll('\\', '/')),
  'ending at a fragment or a NUL': (target) => before(/\0/, decodeURIComponent(before(/[?#]/, target))),
};

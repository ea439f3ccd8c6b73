import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import type { Environment } from '../../src/config/config.ts';
import { Router } from '../../src/proxy/admit/router.ts';
import { describeUnless } from '../support/describe-unless.ts';
import { nginxMissing } from '../support/nginx.ts';
import { exchangeRaw, parseOnly, type RawResponse } from '../support/connection.ts';
import { startRoutingExpress } from '../support/routing-express.ts';
import { goMissing, startRoutingGo } from '../support/routing-go.ts';
import {
  kindAt,
  readings,
  startRoutingFastify,
  startRoutingNginx,
  type Kind,
  type RoutingUpstream,
} from '../support/routing-upstreams.ts';
import { configOf, keys, route, startSidecar } from '../support/sidecar.ts';
import { targetsAround } from '../support/targets.ts';

/** A different seed makes different targets. */
const seed = 20_261_121;
const numRuns = 2_000;

vi.setConfig({ testTimeout: 60_000 });

const routes = [
  route('/api/s2s/*', { envelope: true }),
  route('/api/s2s/checkout/:id', { envelope: true, keys: ['public', 'secret'] }),
  route('/api/s2s/webhooks/*', { keys: ['public', 'secret'] }),
  route('/api/v1/transactions/initialize', { keys: ['public', 'secret'] }),
];

const paths = [
  '/api/s2s/charge',
  '/api/s2s/charges/17/refunds',
  '/api/s2s',
  '/api/s2s/checkout/17',
  '/api/s2s/webhooks/bank',
  '/api/s2s/webhooks',
  '/api/v1/transactions/initialize',
  '/api/v1/balance',
  '/api',
];

/** Sends one request, byte for byte, on a connection of its own. */
function ask(to: RoutingUpstream['address'], target: string, key: string, id: string): Promise<string> {
  const lines = [`GET ${target} HTTP/1.1`, 'Host: localhost', `Authorization: Bearer ${key}`, `X-Request-Id: ${id}`];
  return exchangeRaw(to, [...lines, 'Connection: close', '', ''].join('\r\n'));
}

/** The kind of resource that an upstream has for a target. The response is not parsed, because some servers' refusals are not framed. */
async function kindFor({ address }: RoutingUpstream, target: string): Promise<string | undefined> {
  const raw = await ask(address, target, keys.acme, 'direct');
  return /^x-resource: *(.*?)\r$/im.exec(raw)?.[1];
}

async function startBefore({ address }: RoutingUpstream): Promise<RoutingUpstream['address']> {
  const base = configOf('port' in address ? `http://127.0.0.1:${address.port}` : 'http://localhost', { routes });
  const environments = base.environments.map((environment): Environment => ({
    ...environment,
    upstream: { ...environment.upstream, socketPath: 'path' in address ? address.path : undefined },
  }));
  const { port } = await startSidecar({ ...base, environments });
  return { host: '127.0.0.1', port };
}

/** The decision of a router that takes every target literally. */
function unguarded(target: string): Kind {
  const match = new Router(routes).match(target.split('?', 1)[0] ?? '', 'GET');
  if (match.outcome !== 'matched') return 'plain secret';
  return `${match.route.envelope ? 'sealed' : 'plain'} ${match.route.keys.includes('public') ? 'public' : 'secret'}`;
}

/** The kind of resource that a target means if it is read this way; empty if it means none. */
function kindIn(read: (target: string) => string, target: string): Kind[] {
  try {
    return [kindAt(read(target))];
  } catch {
    return [];
  }
}

const meaningsOf = (target: string): Kind[] => Object.values(readings).flatMap((read) => kindIn(read, target));

/**
 * Sends targets through the sidecar and compares its decision with that of the upstream.
 *
 * @param examine checks the upstream's response to a target to which the sidecar assigned `kind`
 * @param otherMeanings the kinds that other programs would assign to a target that was refused
 * @param letters the letters from which the targets are made
 */
async function compare(
  upstream: RoutingUpstream,
  examine: (kind: string, target: string, response: RawResponse) => void,
  otherMeanings: (target: string) => readonly Kind[] = () => [],
  letters: Parameters<typeof targetsAround>[1] = 'beyond ASCII',
): Promise<void> {
  const sidecar = await startBefore(upstream);
  const forwarded: string[] = [];
  const counts = new Map<string, number>();
  const count = (outcome: string): void => void counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  let sent = 0;
  const through = async (target: string, key: string): Promise<RawResponse & { readonly passed: boolean }> => {
    const id = `through-${(sent += 1)}`;
    const response = parseOnly(await ask(sidecar, target, key, id));
    const passed = response.headers['x-resource'] !== undefined;
    if (passed) forwarded.push(id);
    return { ...response, passed };
  };

  await fc.assert(
    fc.asyncProperty(targetsAround(paths, letters), async (raw) => {
      const [bySecret, byPublic] = await Promise.all([through(raw, keys.acme), through(raw, keys.acmePublic)]);
      if (!bySecret.passed) {
        for (const { body } of [bySecret, byPublic]) expect(body).toMatch(/"code":"(?:ambiguous|malformed)_request"/);
        count('refused');
        const meanings = [await kindFor(upstream, raw), ...otherMeanings(raw)];
        if (meanings.some((kind) => kind !== undefined && kind !== unguarded(raw))) count('misread without a guard');
        return;
      }
      if (!byPublic.passed) expect(byPublic.status).toBe(403);
      const decided = `${bySecret.headers['envelope'] ?? 'plain'} ${byPublic.passed ? 'public' : 'secret'}`;
      count(decided);
      // Node's parser accepts several spaces after the method. Only one is forwarded.
      const target = raw.replace(/^ +/, '');
      for (const response of [bySecret, byPublic].filter(({ passed }) => passed)) {
        expect(response.headers['x-target']).toBe(target);
        expect(response.headers['x-resource']).toBe(decided);
        examine(decided, target, response);
      }
    }),
    { seed, numRuns },
  );

  // No refused request reached the upstream under any target.
  const arrived = (): string[] => upstream.seen().filter((id) => id.startsWith('through-'));
  await vi.waitFor(() => expect(arrived()).toHaveLength(forwarded.length));
  expect(arrived().toSorted()).toEqual(forwarded.toSorted());
  // The targets were varied enough: each kind was reached, and a router without the guard would have misread many.
  const kinds = ['plain public', 'plain secret', 'sealed public', 'sealed secret'];
  expect([...counts.keys()].toSorted()).toEqual([...kinds, 'refused', 'misread without a guard'].toSorted());
  expect([...counts].filter(([, times]) => times < numRuns / 40)).toEqual([]);
}

describe(`the upstream reads a target as the sidecar does, or the target is refused (seed ${seed})`, () => {
  test('Express', async () => {
    await compare(await startRoutingExpress(), () => {}, meaningsOf);
  });

  test('Fastify, and the other readings that are common in Node programs', async () => {
    await compare(
      await startRoutingFastify(),
      (kind, target) => {
        const path = decodeURIComponent(target.split('?', 1)[0] ?? '');
        const others = Object.entries(readings)
          .map(([reading, read]) => ({ reading, path: read(target) }))
          .filter((read) => read.path !== path || kindAt(read.path) !== kind);
        expect(others).toEqual([]);
      },
      meaningsOf,
      // With `caseSensitive: false`, Fastify decodes the path and then lower-cases it, so a Kelvin sign becomes `k` (docs/cores.md).
      'of ASCII',
    );
  });
});

test('only Fastify with `caseSensitive: false` takes a Kelvin sign for a `k`, as docs/cores.md says', async () => {
  const target = '/api/s2s/chec%E2%84%AAout/17';
  expect(await kindFor(await startRoutingFastify(), target)).toBe('sealed public');
  expect(await kindFor(await startRoutingExpress(), target)).toBe('sealed secret');
});

describeUnless(nginxMissing, `nginx as the upstream (seed ${seed})`, () => {
  test('reads a target as the sidecar does, or the target is refused', async () => {
    await compare(await startRoutingNginx(), (kind, target, { headers }) => {
      // nginx decoded the path and had no dots or slashes to resolve.
      const path = target.split('?', 1)[0] ?? '';
      expect(Buffer.from(headers['x-path'] ?? '', 'latin1').toString()).toBe(`<${decodeURIComponent(path)}>`);
      // A case-sensitive location also matches if the path is in lower case, like the routes.
      if (path === path.toLowerCase()) expect(headers['x-exact']).toBe(kind);
    });
  });
});

describeUnless(goMissing, `Go’s net/http as the upstream (seed ${seed})`, () => {
  test('reads a target as the sidecar does, or the target is refused', async () => {
    await compare(await startRoutingGo(), () => {}, meaningsOf);
  });
});

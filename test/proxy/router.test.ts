import { describe, expect, test } from 'vitest';
import type { HttpMethod } from '../../src/config/config.ts';
import { Router } from '../../src/proxy/admit/router.ts';
import { readPath } from '../../src/proxy/admit/target.ts';
import { send } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { keys, route } from '../support/sidecar.ts';
import { few } from '../support/property.ts';

/** The route that a line such as `GET,POST /path` describes. A line without methods allows all of them. */
function routeOf(line: string): ReturnType<typeof route> {
  const [methods, path] = line.includes(' ') ? line.split(' ') : ['', line];
  return route(path ?? '', { methods: (methods === '' ? [] : methods?.split(',')) as HttpMethod[] });
}

/** How routes from `lines` match a request: the pattern of its route, `405 ` and the pattern of the path, or `unlisted`. */
function found(lines: readonly string[], path: string, method = 'POST'): string {
  const match = new Router(lines.map(routeOf)).match(path, method);
  if (match.outcome === 'matched') return match.route.path;
  return match.outcome === 'unlisted' ? 'unlisted' : `405 ${match.routes[0]?.path}`;
}

/** Every order of `items`. */
function orders<T>(items: readonly T[]): T[][] {
  if (items.length <= 1) return [[...items]];
  return items.flatMap((item, i) => orders(items.toSpliced(i, 1)).map((rest) => [item].concat(rest)));
}

describe('the most specific path is chosen', () => {
  const lines = ['/pay/:id', '/pay/*', '/pay/all', '/pay/:id/refunds', '/*'];

  test.each([
    ['a literal before a parameter and a wildcard', '/pay/all', '/pay/all'],
    ['a parameter before a wildcard', '/pay/some', '/pay/:id'],
    ['a wildcard if nothing else matches', '/pay/some/thing', '/pay/*'],
    ['a parameter in the middle', '/pay/some/refunds', '/pay/:id/refunds'],
    ['a parameter if the literal leads no further', '/pay/all/refunds', '/pay/:id/refunds'],
    ['the nearest wildcard', '/pay/all/other', '/pay/*'],
    ['the wildcard of everything, last', '/other', '/*'],
    ['the wildcard of everything, for the root', '/', '/*'],
    ['a wildcard for its own root, before that of everything', '/pay', '/pay/*'],
  ])('%s, whatever the order of the routes', (_, path, pattern) => {
    for (const order of orders(lines)) expect(found(order, path)).toBe(pattern);
  });

  test.each([
    [['POST /pay/:id', 'GET /pay/all'], '/pay/all', '405 /pay/all'],
    [['POST /pay/*', 'GET /pay/:id'], '/pay/1', '405 /pay/:id'],
    [['POST /pay/*', 'GET /pay'], '/pay', '405 /pay'],
    [['POST /pay/*', 'GET /pay'], '/pay/', '405 /pay'],
    [['POST /*', 'GET /pay/*'], '/pay/1/2', '405 /pay/*'],
  ])('whatever its methods: of %j for POST %s', (lines, path, outcome) => {
    for (const order of orders(lines)) expect(found(order, path)).toBe(outcome);
  });
});

describe('a wildcard', () => {
  test.each([
    ['/x', '/x/*'],
    ['/x/', '/x/*'],
    ['/x/y', '/x/*'],
    ['/x/y/', '/x/*'],
    ['/x/y/z', '/x/*'],
    ['/X', '/x/*'],
    ['/xy', 'unlisted'],
    ['/', 'unlisted'],
  ])('/x/* routes %s to %s', (path, outcome) => expect(found(['/x/*'], path)).toBe(outcome));

  test.each([
    ['/x/1', '/x/:id/*'],
    ['/x/1/', '/x/:id/*'],
    ['/x/1/y', '/x/:id/*'],
    ['/x', 'unlisted'],
  ])('after a parameter, /x/:id/*, routes %s to %s', (path, outcome) =>
    expect(found(['/x/:id/*'], path)).toBe(outcome),
  );

  test('does not cover its root if that has a route of its own, even with another parameter name', () => {
    expect(found(['/x/:id/*', '/x/:other'], '/x/1')).toBe('/x/:other');
    expect(found(['/x/:id/*', '/x/:other'], '/x/1/2')).toBe('/x/:id/*');
  });
});

describe('letter case and a trailing slash', () => {
  test.each([
    ['/Api/Pay', '/api/pay'],
    ['/api/pay', '/API/Pay'],
    ['/api/pay/', '/api/pay'],
    ['/api/pay', '/api/pay/'],
    ['/api/:Id', '/API/x/'],
    ['/Api/*', '/aPI/x'],
  ])('do not matter: the route %s covers %s', (pattern, path) => expect(found([pattern], path)).toBe(pattern));

  test('do not matter on an enveloped route, so that no spelling bypasses the envelope', async () => {
    const { sidecar, upstream } = await startGateway();
    const spellings = ['/api/s2s/charge', '/API/S2S/charge', '/api/s2s/charge/', '/Api/s2S', '/api/s2s/'];
    for (const path of spellings) {
      const response = await send(sidecar, `POST ${path}`, { key: keys.acme, body: '{"amount":1}' });
      expect(JSON.parse(response.body)).toMatchObject({ code: 'envelope_required' });
    }
    expect(upstream.heads()).toBe(0);
  });
});

describe('a parameter', () => {
  test('may be as long as 10,000 characters', async () => {
    const routes = [route('/pay/:id/refunds', { keys: ['public'] })];
    const { sidecar, upstream } = await startGateway({ routes });
    const path = `/pay/${'x'.repeat(10_000)}/refunds`;
    expect((await send(sidecar, `GET ${path}`, { key: keys.globexPublic })).status).toBe(200);
    expect(upstream.seen[0]?.url).toBe(path);
    expect(sidecar.accessLines()[0]).toMatchObject({ route: '/pay/:id/refunds' });
  });

  test.each(['/pay/%20/refunds', '/pay/%E2%82%AC/refunds', '/pay/a%24b%26c/refunds', '/pay/a:b@c!$&,=+/refunds'])(
    'may be percent-encoded or have reserved characters: %s',
    async (path) => {
      const { sidecar, upstream } = await startGateway({ routes: [route('/pay/:id/refunds', { keys: ['public'] })] });
      expect((await send(sidecar, `GET ${path}`, { key: keys.globexPublic })).status).toBe(200);
      expect(upstream.seen[0]?.url).toBe(path);
    },
  );

  test.each([
    ['/pay', 'unlisted'],
    ['/pay/', 'unlisted'],
    ['/pay/1/2', 'unlisted'],
    ['/pay/1', '/pay/:id'],
  ])('is exactly one segment: %s leads to %s', (path, outcome) => expect(found(['/pay/:id'], path)).toBe(outcome));
});

describe('percent-encoded segments', () => {
  test.each([
    ['/x/%20', '/x/*'],
    ['/x/%E2%82%AC/y', '/x/*'],
    ['/x%20', 'unlisted'],
    ['/%20x', 'unlisted'],
  ])('are ordinary segments: with /x/*, %s leads to %s', (path, outcome) =>
    expect(found(['/x/*'], path)).toBe(outcome),
  );
});

describe('every percent-encoded non-ASCII code point', () => {
  const router = new Router([
    route('/api/s2s/*', { envelope: true }),
    route('/api/s2s/webhooks/*', { keys: ['public'] }),
    route('/pay/:id/refunds', { envelope: true }),
  ]);
  const pattern = (path: string): string => {
    const match = router.match(path, 'POST');
    return match.outcome === 'matched' ? match.route.path : match.outcome;
  };
  /** Yields the code points except surrogates, which have no encoding. If few are enough, yields only every 61st. */
  function* encoded(): Generator<string> {
    for (let code = 0x80; code <= 0x10_ff_ff; code += few ? 61 : 1) {
      if (code < 0xd8_00 || code > 0xdf_ff) yield encodeURIComponent(String.fromCodePoint(code));
    }
  }

  test('differs from the letters of a literal', () => {
    const wrong = new Set<string>();
    for (const text of encoded()) {
      if (pattern(`/api/s2s/webhoo${text}s/x`) !== '/api/s2s/*') wrong.add(text);
      if (pattern(`/ap${text}/s2s/x`) !== 'unlisted') wrong.add(text);
    }
    expect([...wrong]).toEqual([]);
  }, 60_000);

  test('is part of a parameter', () => {
    const wrong: string[] = [];
    let segment = '';
    for (const text of encoded()) {
      segment += text;
      if (segment.length < 1_000 && text !== '%F4%8F%BF%BF') continue;
      if (pattern(readPath(`/pay/${segment}/refunds/`) ?? '') !== '/pay/:id/refunds') wrong.push(segment);
      segment = '';
    }
    expect(wrong).toEqual([]);
  }, 60_000);
});

describe('the method', () => {
  test.each([
    ['GET', '/pay'],
    ['HEAD', '/pay'],
    ['POST', '405 /pay'],
    ['OPTIONS', '405 /pay'],
    ['get', '405 /pay'],
  ])('of a path with GET: %s leads to %s', (method, outcome) =>
    expect(found(['GET /pay'], '/pay', method)).toBe(outcome),
  );

  test.each([
    ['a path with POST alone has no HEAD', ['POST /pay'], 'HEAD', '405 /pay'],
    ['a path with HEAD alone has no GET', ['HEAD /pay'], 'GET', '405 /pay'],
    ['a path without methods has all', ['/pay'], 'PROPFIND', '/pay'],
  ])('%s', (_, lines, method, outcome) => expect(found(lines, '/pay', method)).toBe(outcome));

  test.each([
    ['GET', '/Pay'],
    ['HEAD', '/Pay'],
    ['POST', '/pAy/'],
    ['PUT', '405 /Pay'],
  ])('decides if a path is listed twice: %s leads to %s', (method, outcome) => {
    expect(found(['GET /Pay', 'POST /pAy/'], '/pay', method)).toBe(outcome);
  });

  test.each([
    ['GET', '/x/:a/*'],
    ['POST', '/X/:b/*'],
    ['PUT', '405 /x/:a/*'],
  ])('decides if a wildcard is listed twice, even for its root: %s leads to %s', (method, outcome) => {
    expect(found(['GET /x/:a/*', 'POST /X/:b/*'], '/x/1', method)).toBe(outcome);
  });

  test('HEAD leads to the route that lists it rather than to that of GET', () => {
    expect(found(['GET /pay', 'HEAD /PAY'], '/pay', 'HEAD')).toBe('/PAY');
    expect(found(['GET /pay', 'HEAD /PAY'], '/pay', 'GET')).toBe('/pay');
  });
});

describe('a path without a route', () => {
  test.each(['/', '/pay', '/x/pay', '/payx', '/pay/1'])('is unlisted: %s', (path) => {
    expect(found(['/pay/all'], path)).toBe('unlisted');
  });

  test('is unlisted if there are no routes', () => expect(found([], '/pay')).toBe('unlisted'));
});

import { describe, expect, test } from 'vitest';
import { send } from '../support/client.ts';
import { envelopeOf } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { scrape } from '../support/metrics.ts';
import { acmeTest, keys, route } from '../support/sidecar.ts';

const routes = [
  route('/pay', { methods: ['POST'], keys: ['public', 'secret'] }),
  route('/pay', { methods: ['GET'] }),
  route('/api/s2s/charge', { methods: ['POST'], envelope: true }),
];
const preflight = { headers: { Origin: 'https://shop.example', 'Access-Control-Request-Method': 'GET' } };

describe('a refusal that is only reported', () => {
  const cases = [
    ['key_not_permitted', 'GET /pay', { key: keys.globexPublic }],
    ['key_not_permitted', 'GET /unlisted', { key: keys.globexPublic }],
    ['method_not_allowed', 'PUT /pay', { key: keys.globex }],
    ['encryption_not_supported', 'POST /pay', { key: keys.acme, body: envelopeOf(acmeTest, '{}') }],
  ] as const;

  test.each(cases)('is counted and logged, and the request is forwarded: %s of %s', async (code, line, sent) => {
    const { sidecar, upstream } = await startGateway({ routes, report: [code] });
    expect((await send(sidecar, line, sent)).status).toBe(200);
    expect(upstream.seen).toMatchObject([{ body: 'body' in sent ? sent.body : '' }]);
    expect(sidecar.accessLines()).toMatchObject([{ status: 200, reported: code }]);
    expect(sidecar.accessLines()[0]).not.toHaveProperty('code');
    const metrics = await scrape(sidecar);
    expect(metrics).toContain(`envelope_sidecar_reported_total{environment="test",code="${code}"} 1`);
    expect(metrics).not.toContain('envelope_sidecar_refusals_total{environment="test",code="' + code);
  });

  test.each(cases)('is enforced if `report` does not list it: %s of %s', async (code, line, sent) => {
    const others = ['key_not_permitted', 'method_not_allowed', 'encryption_not_supported'] as const;
    const { sidecar, upstream } = await startGateway({ routes, report: others.filter((other) => other !== code) });
    expect(JSON.parse((await send(sidecar, line, sent)).body)).toMatchObject({ code });
    expect(upstream.heads()).toBe(0);
    expect(sidecar.accessLines()[0]).toMatchObject({ code });
  });
});

test('an unlisted method that is only reported obeys the strictest of its path’s routes', async () => {
  const { sidecar, upstream } = await startGateway({ routes, report: ['method_not_allowed'] });
  const sealed = await send(sidecar, 'PUT /api/s2s/charge', { key: keys.acme, body: envelopeOf(acmeTest, '{"a":1}') });
  expect([sealed.status, sealed.headers['envelope']]).toEqual([200, 'sealed']);
  expect(upstream.seen[0]?.body).toBe('{"a":1}');
  const refused = await send(sidecar, 'PUT /pay', { key: keys.globexPublic });
  expect(JSON.parse(refused.body)).toMatchObject({ code: 'key_not_permitted' });
  expect(upstream.heads()).toBe(1);
});

test('a request that breaks two rules is reported for both', async () => {
  const { sidecar } = await startGateway({ routes, report: ['method_not_allowed', 'key_not_permitted'] });
  expect((await send(sidecar, 'PUT /pay', { key: keys.globexPublic })).status).toBe(200);
  expect(sidecar.accessLines()[0]).toMatchObject({ reported: 'method_not_allowed,key_not_permitted' });
});

test('with key_not_permitted a preflight counts as if every route listed public keys', async () => {
  const { sidecar, upstream } = await startGateway({ routes, report: ['key_not_permitted'] });
  for (const path of ['/pay', '/unlisted'])
    expect((await send(sidecar, `OPTIONS ${path}`, preflight)).status).toBe(200);
  expect(upstream.heads()).toBe(2);
  // A request without a key is still refused, but a browser may read why.
  const refused = await send(sidecar, 'GET /pay', { headers: { Origin: 'https://shop.example' } });
  expect([refused.status, refused.headers['access-control-allow-origin']]).toEqual([401, '*']);
  const { sidecar: enforcing } = await startGateway({ routes });
  expect((await send(enforcing, 'OPTIONS /pay', preflight)).status).toBe(401);
});

test('`report` never lets a request without a valid API key through', async () => {
  const report = ['key_not_permitted', 'method_not_allowed', 'encryption_not_supported'] as const;
  const { sidecar, upstream } = await startGateway({ routes, report });
  for (const key of ['sk_test_unknownunknownunknown', keys.acmeLive, 'x']) {
    expect((await send(sidecar, 'PUT /pay', { key })).status).toBeGreaterThanOrEqual(401);
  }
  expect(upstream.heads()).toBe(0);
});

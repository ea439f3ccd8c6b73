import { describe, expect, test, vi } from 'vitest';
import { envelopeOf, send } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { firstSeen, startGateway } from '../support/gateway.ts';
import { startOtlpReceiver, type OtlpReceiver, type ReceivedSpan } from '../support/otlp-receiver.ts';
import { acmeTest, configOf, keys } from '../support/sidecar.ts';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const parentId = '00f067aa0ba902b7';
const traceparent = (flags: '00' | '01'): string => `00-${traceId}-${parentId}-${flags}`;
const form = /^00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])$/;

type Setting = Parameters<typeof startGateway>[0];

/** Starts a sidecar with tracing, in front of an upstream. */
async function traced(
  sample: number,
  more: Setting = {},
): Promise<Awaited<ReturnType<typeof startGateway>> & { receiver: OtlpReceiver }> {
  const receiver = await startOtlpReceiver();
  return { ...(await startGateway({ tracing: { otlp: receiver.origin, sample }, ...more })), receiver };
}

/** Stops the sidecar, which then exports all spans. Returns the server span and the client span. */
async function spansOf({ sidecar, receiver }: Awaited<ReturnType<typeof traced>>): Promise<{
  server: ReceivedSpan | undefined;
  client: ReceivedSpan | undefined;
}> {
  await sidecar.app.stop();
  const server = receiver.spans.find(({ kind }) => kind === 'server');
  const client = receiver.spans.find(({ kind }) => kind === 'client');
  expect(receiver.spans).toHaveLength(Number(server !== undefined) + Number(client !== undefined));
  return { server, client };
}

const charge = 'POST /api/s2s/card-4111111111111111?secret=query';

describe('the trace of a request', () => {
  test('has a server span with the fields of the access line, and a client span within it', async () => {
    const setting = await traced(1);
    const body = envelopeOf(acmeTest, '{"amount":1}');
    await send(setting.sidecar, charge, { key: keys.acme, body, headers: { 'X-Request-Id': 'order-1' } });
    await eventually('the access line is written', () => setting.sidecar.accessLines().length === 1);
    const [line] = setting.sidecar.accessLines();
    const { server, client } = await spansOf(setting);
    expect(server).toMatchObject({
      name: 'POST /api/s2s/*',
      parentSpanId: '',
      isError: false,
      resource: { 'service.name': 'envelope-sidecar', 'service.version': '0.0.0' },
    });
    expect(server?.attributes).toEqual({
      'http.request.method': 'POST',
      'http.route': '/api/s2s/*',
      'http.response.status_code': 200,
      'envelope_sidecar.request_id': 'order-1',
      'envelope_sidecar.environment': 'test',
      'envelope_sidecar.account': 'acme',
      'envelope_sidecar.api_key': 'sk_test-acmeac',
      'envelope_sidecar.envelope_ms': line?.['envelope_ms'],
    });
    expect(client).toMatchObject({ name: 'POST', traceId: server?.traceId, parentSpanId: server?.spanId });
    expect(client?.attributes).toEqual({ 'http.request.method': 'POST', 'http.response.status_code': 200 });
    const within = [server?.start, client?.start, client?.end, server?.end];
    expect(within).toEqual(within.toSorted((a = 0n, b = 0n) => Number(a - b)));
    expect(line).toMatchObject({ trace_id: server?.traceId });
    expect(firstSeen(setting.upstream).headers['traceparent']).toBe(`00-${client?.traceId}-${client?.spanId}-01`);
  });

  test('has no path, query, body, key or header', async () => {
    const setting = await traced(1);
    const headers = { 'X-Custom': 'canary-header', traceparent: traceparent('01'), tracestate: 'canary=state' };
    const body = envelopeOf(acmeTest, '{"card":"canary-body"}');
    await send(setting.sidecar, charge, { key: keys.acme, body, headers });
    await send(setting.sidecar, charge, { key: `${keys.acme}canary`, body });
    await eventually('the access lines are written', () => setting.sidecar.accessLines().length === 2);
    await setting.sidecar.app.stop();
    expect(setting.receiver.spans).toHaveLength(3);
    const text = setting.receiver.text();
    for (const secret of ['canary', '41111111', 'query', keys.acme, acmeTest.key, body.slice(9, -2)]) {
      expect(text).not.toContain(secret);
    }
  });

  test('has the code of a refusal, and a 5xx is an error', async () => {
    const refused = await traced(1);
    await send(refused.sidecar, charge, {});
    await eventually('the access line is written', () => refused.sidecar.accessLines().length === 1);
    const { server, client } = await spansOf(refused);
    expect(server).toMatchObject({ isError: false, attributes: { 'envelope_sidecar.refusal': 'missing_api_key' } });
    expect(client).toBeUndefined();

    const failed = await traced(1);
    failed.upstream.server.close();
    await send(failed.sidecar, 'GET /x', { key: keys.globex });
    await eventually('the access line is written', () => failed.sidecar.accessLines().length === 1);
    const spans = await spansOf(failed);
    expect(spans.server).toMatchObject({ isError: true, attributes: { 'error.type': 'upstream_unavailable' } });
    expect(spans.client).toMatchObject({ isError: true, attributes: { 'error.type': 'ECONNREFUSED' } });
    expect(spans.client?.attributes).not.toHaveProperty('http.response.status_code');
  });
});

describe("a client's trace", () => {
  const headers = { traceparent: traceparent('01'), tracestate: 'vendor=1' };

  test('is continued: its id, its span as the parent, its tracestate', async () => {
    const setting = await traced(1);
    await send(setting.sidecar, 'GET /x', { key: keys.globex, headers });
    await eventually('the access line is written', () => setting.sidecar.accessLines().length === 1);
    const { server, client } = await spansOf(setting);
    expect(server).toMatchObject({ traceId, parentSpanId: parentId });
    const { rawHeaders, headers: seen } = firstSeen(setting.upstream);
    expect(seen['traceparent']).toBe(`00-${traceId}-${client?.spanId}-01`);
    expect(seen['tracestate']).toBe('vendor=1');
    expect(rawHeaders.filter((name) => name.toLowerCase() === 'traceparent')).toHaveLength(1);
  });

  test('that is malformed is replaced, and its tracestate dropped', async () => {
    const setting = await traced(1);
    await send(setting.sidecar, 'GET /x', { key: keys.globex, headers: { ...headers, traceparent: 'malformed' } });
    await eventually('the access line is written', () => setting.sidecar.accessLines().length === 1);
    const { server } = await spansOf(setting);
    expect(server).toMatchObject({ parentSpanId: '' });
    const seen = firstSeen(setting.upstream).headers;
    expect(seen['traceparent']).toMatch(form);
    expect(seen).not.toHaveProperty('tracestate');
  });

  test.each([
    ['sampled by an untrusted client', 0, [], '01', false],
    ['not sampled by an untrusted client', 1, [], '00', true],
    ['sampled by a trusted proxy', 0, ['127.0.0.1'], '01', true],
    ['not sampled by a trusted proxy', 1, ['127.0.0.1'], '00', false],
  ] as const)(
    'keeps its sampling decision if a trusted proxy made it: %s',
    async (_, sample, trustedProxies, flags, expected) => {
      const setting = await traced(sample, { trustedProxies });
      await send(setting.sidecar, 'GET /x', { key: keys.globex, headers: { traceparent: traceparent(flags) } });
      await eventually('the access line is written', () => setting.sidecar.accessLines().length === 1);
      const { server } = await spansOf(setting);
      expect(server !== undefined).toBe(expected);
      const seen = firstSeen(setting.upstream).headers['traceparent'];
      expect(seen).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-${expected ? '01' : '00'}$`));
    },
  );
});

test('if no requests are sampled, the upstream gets a traceparent, and nothing is exported', async () => {
  const setting = await traced(0);
  await send(setting.sidecar, 'GET /x', { key: keys.globex });
  await eventually('the access line is written', () => setting.sidecar.accessLines().length === 1);
  const [line] = setting.sidecar.accessLines();
  expect(await spansOf(setting)).toEqual({ server: undefined, client: undefined });
  const [, id, , flags] = form.exec(String(firstSeen(setting.upstream).headers['traceparent'])) ?? [];
  expect([id, flags]).toEqual([line?.['trace_id'], '00']);
});

test('without tracing the upstream gets no traceparent', async () => {
  const { sidecar, upstream } = await startGateway();
  await send(sidecar, 'GET /x', { key: keys.globex });
  expect(firstSeen(upstream).headers).not.toHaveProperty('traceparent');
});

test('a collector that cannot be reached fails no request, and is logged once', async () => {
  const setting = await startGateway({ tracing: { otlp: 'http://127.0.0.1:1', sample: 1 } });
  expect((await send(setting.sidecar, 'GET /x', { key: keys.globex })).status).toBe(200);
  await eventually('the access line is written', () => setting.sidecar.accessLines().length === 1);
  await setting.sidecar.app.stop();
  expect(setting.sidecar.log.filter(({ msg }) => msg === 'traces cannot be delivered')).toHaveLength(1);
});

test('a reload enables and disables tracing', async () => {
  const receiver = await startOtlpReceiver();
  const { sidecar, upstream } = await startGateway();
  const { origin } = upstream;
  sidecar.app.apply(configOf(origin, { tracing: { otlp: receiver.origin, sample: 1 } }));
  await vi.waitFor(async () => {
    await send(sidecar, 'GET /x', { key: keys.globex });
    expect(upstream.seen.at(-1)?.headers).toHaveProperty('traceparent');
  });
  sidecar.app.apply(configOf(origin));
  await eventually('a span is received', () => receiver.spans.length > 0);
  await send(sidecar, 'GET /x', { key: keys.globex });
  expect(upstream.seen.at(-1)?.headers).not.toHaveProperty('traceparent');
});

import { describe, expect, test } from 'vitest';
import { envelopeOf, opened, send } from '../support/client.ts';
import { firstSeen, startGateway } from '../support/gateway.ts';
import { acmeTest, keys } from '../support/sidecar.ts';

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The values of a header as the upstream saw them, one for each field. */
async function seenOf(name: string, headers: Readonly<Record<string, string | readonly string[]>>): Promise<string[]> {
  const { sidecar, upstream } = await startGateway();
  await send(sidecar, 'GET /api/v1/balance', { key: keys.globex, headers });
  const raw = firstSeen(upstream).rawHeaders;
  return raw.filter((_, i) => i % 2 === 1 && raw[i - 1]?.toLowerCase() === name.toLowerCase());
}

describe('a header that only the sidecar may send', () => {
  const own = {
    'x-account-id': 'globex',
    'x-api-key-id': 'sk_test-globex',
    'x-api-key-kind': 'secret',
    'x-environment': 'test',
  };

  test('names the account, the API key and the environment', async () => {
    const { sidecar, upstream } = await startGateway();
    await send(sidecar, 'GET /api/v1/balance', { key: keys.globex });
    expect(upstream.seen[0]?.headers).toMatchObject(own);
  });

  test.each([
    ['as the sidecar spells it', (name: string) => name],
    ['in upper case', (name: string) => name.toUpperCase()],
    ['with underscores', (name: string) => name.replaceAll('-', '_')],
    ['with dots', (name: string) => name.replaceAll('-', '.')],
    ['with one underscore', (name: string) => name.replace('-', '_')],
    ['with another last hyphen', (name: string) => name.replace(/-(?=[^-]*$)/, '_')],
    ['with tildes', (name: string) => name.replaceAll('-', '~').toUpperCase()],
    ['with several other characters', (name: string) => name.replace('-', '!').replace('-', '^')],
  ])('is never taken from the client, with its name written %s', async (_, spell) => {
    const { sidecar, upstream } = await startGateway();
    const names = [...Object.keys(own), 'x-request-id', 'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host'];
    names.push('x-forwarded-prefix');
    const forged = Object.fromEntries(names.map((name) => [spell(name), 'for ged']));
    await send(sidecar, 'GET /api/v1/balance', { key: keys.globex, headers: forged });
    expect(upstream.seen[0]?.rawHeaders).not.toContain('for ged');
    expect(upstream.seen[0]?.headers).toMatchObject(own);
  });

  test('is dropped in every copy', async () => {
    expect(await seenOf('x-account-id', { 'X-Account-Id': ['a', 'b'], x_account_id: 'c' })).toEqual(['globex']);
  });

  test('cannot be removed by nominating it in Connection', async () => {
    const { sidecar, upstream } = await startGateway();
    const nominated = [
      ...Object.keys(own),
      'X-Request-Id',
      'Authorization',
      'Host',
      'X-Forwarded-For',
      'X-Forwarded-Host',
    ];
    const headers = { Connection: `close, ${nominated.join(', ')}`, 'X-Account-Id': 'acme' };
    await send(sidecar, 'GET /api/v1/balance', { key: keys.globex, headers });
    expect(upstream.seen[0]?.headers).toMatchObject({
      ...own,
      'x-request-id': expect.stringMatching(uuid),
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-host': `127.0.0.1:${sidecar.port}`,
    });
  });

  test('is not confused with similar names', async () => {
    const alike = { 'X-Account-Id-2': 'a', 'My-X-Account-Id': 'b', 'X-AccountId': 'c', X_Custom: 'd' };
    for (const [name, value] of Object.entries(alike)) expect(await seenOf(name, alike)).toEqual([value]);
  });
});

describe('hop-by-hop headers are not forwarded', () => {
  const names = ['Keep-Alive', 'Proxy-Connection', 'Proxy-Authorization', 'Proxy-Authenticate', 'TE', 'Trailer'];

  test.each([...names, 'Upgrade', 'HTTP2-Settings', 'Expect'])('%s', async (name) => {
    expect(await seenOf(name, { [name]: 'x', 'Transfer-Encoding': 'chunked' })).toEqual([]);
  });

  test.each([
    ['one', 'close, X-Hop', 'X-Hop'],
    ['one in another letter case', 'close,x-HOP', 'X-Hop'],
    ['one without spaces among several', 'close,a,X-Hop,b', 'X-Hop'],
    ['a header with a meaning for the sidecar', 'close, If-None-Match', 'If-None-Match'],
    ['Content-Type', 'close, Content-Type', 'Content-Type'],
    ['one after a hundred others', `close,${'x,'.repeat(100)} X-Hop`, 'X-Hop'],
  ])('nor those that Connection nominates: %s', async (_, connection, name) => {
    expect(await seenOf(name, { [name]: 'x', Connection: connection })).toEqual([]);
  });

  test('but others are, even if Connection nominates a header', async () => {
    expect(await seenOf('X-End', { 'X-End': 'x', Connection: 'close, X-Hop' })).toEqual(['x']);
  });
});

describe('other headers', () => {
  test.each([
    ['once', 'X-Custom', ['a']],
    ['several times', 'X-Custom', ['a', 'b', 'a']],
    ['with a comma', 'Accept-Language', ['de, en;q=0.5']],
    ['with non-ASCII letters', 'X-Name', ['caf\u00e9']],
    ['empty', 'X-Empty', ['']],
    ['for conditional requests', 'If-None-Match', ['"a"']],
    ['for parts', 'Range', ['bytes=0-1']],
    ['for compression', 'Accept-Encoding', ['gzip, br']],
    ['for forms', 'Content-Type', ['multipart/form-data; boundary=x']],
    ['for sessions', 'Cookie', ['a=b; c=d']],
  ])('are forwarded unchanged: %s', async (_, name, values) => {
    expect(await seenOf(name, { [name]: values })).toEqual(values);
  });

  test('keep the letter case of their names', async () => {
    const { sidecar, upstream } = await startGateway();
    await send(sidecar, 'GET /', { key: keys.globex, headers: { 'X-CuStOm': 'x' } });
    expect(upstream.seen[0]?.rawHeaders).toContain('X-CuStOm');
  });

  test.each(['Pay.Example', 'pay.example:8443', '[::1]:80'])('Host is forwarded unchanged: %s', async (host) => {
    expect(await seenOf('host', { host })).toEqual([host]);
  });
});

describe('the request id', () => {
  test.each([
    ['one character', 'a'],
    ['128 characters', 'x'.repeat(128)],
    ['every kind of permitted character', 'AZaz09._-'],
  ])('is the client’s if that has %s', async (_, id) => {
    const { sidecar, upstream } = await startGateway();
    const response = await send(sidecar, 'GET /', { key: keys.globex, headers: { 'X-Request-ID': id } });
    expect(response.headers['x-request-id']).toBe(id);
    expect(upstream.seen[0]?.headers['x-request-id']).toBe(id);
    expect(sidecar.accessLines()[0]).toMatchObject({ request_id: id });
  });

  test.each([
    ['no value', undefined],
    ['no character', ''],
    ['129 characters', 'x'.repeat(129)],
    ['a space', 'a b'],
    ['a slash', 'a/b'],
    ['a colon', 'a:b'],
    ['a non-ASCII letter', 'caf\u00e9'],
  ])('is a new one if the client’s has %s', async (_, id) => {
    const { sidecar, upstream } = await startGateway();
    const headers: Record<string, string> = id === undefined ? {} : { 'x-request-id': id };
    const first = await send(sidecar, 'GET /', { key: keys.globex, headers });
    const second = await send(sidecar, 'GET /', { key: keys.globex, headers });
    const ids = [first, second].map((response) => String(response.headers['x-request-id']));
    expect(ids).toEqual([expect.stringMatching(uuid), expect.stringMatching(uuid)]);
    expect(ids[0]).not.toBe(ids[1]);
    expect(upstream.seen.map((seen) => seen.headers['x-request-id'])).toEqual(ids);
    expect(sidecar.accessLines().map((line) => line['request_id'])).toEqual(ids);
  });

  test.each([
    ['a refusal', 'GET /', undefined, 401],
    ['a sealed response', 'GET /api/s2s/charges', keys.acme, 200],
    ['a test endpoint', 'GET /api/s2s/aes-encrypt', undefined, 405],
  ])('is returned on %s', async (_, line, key, status) => {
    const { sidecar } = await startGateway();
    const headers = { 'x-request-id': 'r1' };
    const response = await send(sidecar, line, key === undefined ? { headers } : { key, headers });
    expect([response.status, response.headers['x-request-id']]).toEqual([status, 'r1']);
  });
});

describe('the trace id on the access line', () => {
  const id = '4bf92f3577b34da6a3ce929d0e0e4736';

  test.each([
    ['of version 00', `00-${id}-00f067aa0ba902b7-01`, id],
    ['of a later version', `cc-${id}-00f067aa0ba902b7-01-more`, id],
    ['in upper case', `00-${id.toUpperCase()}-00f067aa0ba902b7-01`, undefined],
    ['of version ff, which is invalid', `ff-${id}-00f067aa0ba902b7-01`, undefined],
    ['of zeros only', `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`, undefined],
    ['with a parent of zeros only', `00-${id}-${'0'.repeat(16)}-01`, undefined],
    ['with one digit too many', `00-${id}0-00f067aa0ba902b7-01`, undefined],
    ['with a character after it', `00-${id}-00f067aa0ba902b7-011`, undefined],
    ['that is text', 'x', undefined],
  ])('is taken from a valid traceparent only: %s', async (_, traceparent, expected) => {
    const { sidecar, upstream } = await startGateway();
    await send(sidecar, 'GET /', { key: keys.globex, headers: { traceparent, tracestate: 'a=b' } });
    expect(sidecar.accessLines()[0]?.['trace_id']).toBe(expected);
    // Invalid values are forwarded, too, because the upstream's tracing decides what to do with them.
    expect(upstream.seen[0]?.headers).toMatchObject({ traceparent, tracestate: 'a=b' });
  });
});

test('the head of an enveloped request obeys the same rules', async () => {
  const { sidecar, upstream } = await startGateway();
  const headers = { X_Account_Id: 'globex', 'X-Request-Id': 'r1', Connection: 'close, X-Hop', 'X-Hop': 'x' };
  const sent = { key: keys.acme, body: envelopeOf(acmeTest, '{}'), headers };
  const response = await send(sidecar, 'POST /api/s2s/charge', sent);
  expect(opened(acmeTest, response)).toBe('{"ok":true}');
  expect(upstream.seen[0]?.headers).toMatchObject({
    'x-account-id': 'acme',
    'x-api-key-id': 'sk_test-acmeac',
    'x-api-key-kind': 'secret',
    'x-environment': 'test',
    'x-request-id': 'r1',
  });
  expect(upstream.seen[0]?.headers).not.toHaveProperty('x-hop');
  expect(upstream.seen[0]?.headers).not.toHaveProperty('x_account_id');
});

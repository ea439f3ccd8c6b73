import { expect, vi } from 'vitest';
import { findRefusal, type RefusalCode } from '../../src/errors.ts';
import { explained } from './client.ts';
import { openConnection, parseOnly, type Connection, type RawResponse } from './connection.ts';
import { configOf, keys, startSidecar, type TestSidecar } from './sidecar.ts';
import { startUpstream, type TestUpstream } from './upstream.ts';

/** The header with the key of an account that does not encrypt. */
export const authorization = `Authorization: Bearer ${keys.globex}`;
/** A request that would be served if it were sent alone. */
export const valid = `GET /behind HTTP/1.1\r\nHost: localhost\r\n${authorization}\r\n\r\n`;

/** Starts a sidecar with these limits and timeouts, and an upstream that responds to complete requests. */
export async function start(
  limits: { header?: number; headers?: number; inFlight?: number } = {},
  timeouts: { header?: number } = {},
): Promise<{ readonly upstream: TestUpstream; readonly sidecar: TestSidecar }> {
  const upstream = await startUpstream();
  const sidecar = await startSidecar(configOf(upstream.origin, { limits, timeouts }));
  return { upstream, sidecar };
}

/** The head of a request. */
export function request(line: string, ...headers: readonly string[]): string {
  return [line, ...headers, '', ''].join('\r\n');
}

/** The head of a POST that would be served. */
export function post(...headers: readonly string[]): string {
  return request('POST / HTTP/1.1', 'Host: localhost', authorization, ...headers);
}

/** Expects the refusal of a request without an id: the body, a new id, and `Connection: close`. */
export function expectRefusal(response: RawResponse, code: RefusalCode): void {
  const { status, title, detail } = findRefusal(code);
  expect(response.status).toBe(status);
  expect(response.headers).toMatchObject({
    'content-type': 'application/problem+json',
    connection: 'close',
    'x-request-id': expect.stringMatching(/^[0-9a-f-]{36}$/),
  });
  const request_id = response.headers['x-request-id'];
  expect(explained(response.body, code)).toEqual({
    type: 'about:blank',
    title,
    status,
    detail,
    code,
    request_id,
    forwarded: 'no',
  });
}

/** Sends bytes that must be refused, followed by a valid request, and expects one refusal and then the end of the connection. */
export async function expectOnlyRefused(
  sidecar: TestSidecar,
  upstream: TestUpstream,
  bytes: string,
  code: RefusalCode,
): Promise<void> {
  const client = await openConnection(sidecar.port);
  client.send(bytes + valid);
  expectRefusal(parseOnly(await client.untilEnded()), code);
  expect(client.ending).toBe('end');
  expect(upstream.heads()).toBe(0);
  await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(1));
  expect(sidecar.accessLines()[0]).toMatchObject({ status: findRefusal(code).status, code, route: 'none' });
}

/**
 * Like `expectOnlyRefused`, but for a request whose end is unknown. The sidecar reads and discards its bytes until the client has the
 * response.
 */
export async function expectRefusedOnceRead(
  sidecar: TestSidecar,
  upstream: TestUpstream,
  bytes: string,
  code: RefusalCode,
): Promise<void> {
  const client = await openConnection(sidecar.port);
  client.send(bytes + valid);
  await client.untilText('}');
  client.socket.end();
  const response = parseOnly(await client.untilEnded());
  expect(response.headers['connection']).toBe('close');
  expect(JSON.parse(response.body)).toMatchObject({ code });
  expect(upstream.seen).toEqual([]);
  await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(1));
  expect(sidecar.accessLines()[0]).toMatchObject({ status: findRefusal(code).status, code });
}

/** Waits until the other end has closed the connection. Keeps sending bytes, because the reset that answers them shows that it has. */
export async function untilGone(client: Connection): Promise<void> {
  const drip = setInterval(() => client.send('x'), 50);
  await new Promise((resolve) => void client.socket.once('close', resolve));
  clearInterval(drip);
}

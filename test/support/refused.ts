import { expect, vi } from 'vitest';
import { refusalOf, type RefusalCode } from '../../src/errors.ts';
import { openConnection, parseOnly, type Connection, type RawResponse } from './connection.ts';
import { configOf, keys, startSidecar, type TestSidecar } from './sidecar.ts';
import { startUpstream, type TestUpstream } from './upstream.ts';

/** Of an account that does not encrypt. */
export const authorization = `Authorization: Bearer ${keys.globex}`;
/** What would be served if it stood alone. */
export const valid = `GET /behind HTTP/1.1\r\nHost: localhost\r\n${authorization}\r\n\r\n`;

/** A sidecar before an upstream that answers whole requests, with these limits and timeouts. */
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

/** A refusal on a connection without a request id to keep: its body, a fresh id, and word that the connection closes. */
export function expectRefusal(response: RawResponse, code: RefusalCode): void {
  const { status, title, detail } = refusalOf(code);
  expect(response.status).toBe(status);
  expect(response.headers).toMatchObject({
    'content-type': 'application/problem+json',
    connection: 'close',
    'x-request-id': expect.stringMatching(/^[0-9a-f-]{36}$/),
  });
  const request_id = response.headers['x-request-id'];
  expect(JSON.parse(response.body)).toEqual({
    type: `docs/errors.md#${code}`,
    title,
    status,
    detail,
    code,
    request_id,
  });
}

/** Sends what is to be refused with a good request behind it, and expects one refusal, then the connection's end. */
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
  expect(sidecar.accessLines()[0]).toMatchObject({ status: refusalOf(code).status, code, route: 'none' });
}

/** The same for a request without a known end: it is read on for a while, until its client has the response. */
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
  expect(sidecar.accessLines()[0]).toMatchObject({ status: refusalOf(code).status, code });
}

/** Waits until the other end has closed the connection: what is sent comes back as a reset. */
export async function untilGone(client: Connection): Promise<void> {
  const drip = setInterval(() => client.send('x'), 50);
  await new Promise((resolve) => void client.socket.once('close', resolve));
  clearInterval(drip);
}

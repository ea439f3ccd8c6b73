import type { Socket } from 'node:net';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import { findRefusal, type RefusalCode } from '../../../src/errors.ts';
import { acmeTest, keys } from '../../../test/support/sidecar.ts';
import { Addresses } from '../addresses.ts';
import { reset } from '../../load/tls-socket.ts';
import { accounts } from '../request/accounts.ts';
import { Client, type Received } from '../client.ts';
import { unsealed } from '../envelope/oracle.ts';
import { readResponse, type Response } from '../http/responses.ts';
import { valuesOf } from '../http/message.ts';
import { readRequest } from '../http/requests.ts';
import { pieces } from '../mutation.ts';
import { ensure, type OpenPart, type Part, type Tally } from '../part.ts';
import { startWatched } from '../sidecar.ts';
import { responseCases, type ResponseCase } from './arbitrary.ts';

/** A case in progress. */
interface Asked {
  readonly one: ResponseCase;
  /** Whether the request reached the upstream on an intact connection. */
  heard: boolean;
}

/** How long it may take until internal errors show, in milliseconds. */
const afterglow = 50;

/** Makes the upstream send an arbitrary response to a correct request. The response must reach the client unchanged, or fail visibly. */
export const responsePart: Part<ResponseCase> = {
  name: 'response',
  share: 5,
  lanes: 192,
  cases: responseCases,
  open: openResponsePart,
};

async function openResponsePart(tally: Tally): Promise<OpenPart<ResponseCase>> {
  const cases = new Map<string, Asked>();
  const spoilt = new WeakSet<Socket>();
  const onData = (bytes: string, socket: Socket): string => {
    const request = readRequest(bytes);
    if (typeof request === 'string') return bytes;
    const asked = cases.get(valuesOf(request, 'x-lane').join());
    if (asked === undefined) return '';
    // If an upstream ends a connection or sends too much, the next request on that connection may fail.
    asked.heard = !spoilt.has(socket);
    if (asked.one.ending !== 'keep' || modelOf(asked.one)?.end !== asked.one.bytes.length) spoilt.add(socket);
    void say(asked.one, socket);
    return '';
  };
  const patience = { connect: '2s', header: '10s', request: '60s', upstream: '2s', idle: '75s', drain: '100ms' };
  const sidecars = await startWatched(onData, accounts, patience);
  const addresses = new Addresses();
  const clients = new Map<number, Client>();
  return {
    check: async (one, lane, alone) => {
      const client = clients.get(lane) ?? new Client(sidecars.entryOf(lane), addresses);
      clients.set(lane, client);
      ensure(client.unasked === '', 'nothing comes without a request', client.unasked);
      const asked = { one, heard: false };
      cases.set(String(lane), asked);
      await client.ready();
      await client.write([requestOf(one, lane)]);
      const received = await client.receive((text) => typeof finalIn(text, one.method, false) !== 'string');
      try {
        judge(asked, received, tally);
      } finally {
        if (received.ending === 'hung') client.cut();
      }
      if (alone) await delay(afterglow);
      const faults = sidecars.takeFaults();
      ensure(faults.length === 0, 'nothing fails inside', faults);
    },
    close: async () => {
      for (const client of clients.values()) client.cut();
      await sidecars.stop();
    },
  };
}

function requestOf({ method, sealed }: ResponseCase, lane: number): string {
  const lines = [
    `${method} ${sealed ? '/api/s2s/pay' : '/orders'} HTTP/1.1`,
    'Host: sandbox.pay.example',
    `Authorization: Bearer ${sealed ? keys.acme : keys.globex}`,
    `X-Lane: ${lane}`,
  ];
  return `${lines.join('\r\n')}\r\n\r\n`;
}

/**
 * Sends the upstream's bytes. Bytes after the end of the response are sent together with its last byte, because they would otherwise belong
 * to the next request.
 */
async function say(one: ResponseCase, socket: Socket): Promise<void> {
  const response = modelOf(one);
  const whole = response === undefined ? one.bytes.length : Math.max(0, response.end - 1);
  const places = one.cuts.map((cut) => cut % (whole + 1));
  for (const piece of pieces(one.bytes, places)) {
    socket.write(piece, 'latin1');
    await turn();
  }
  if (one.ending === 'reset') reset(socket);
  else if (one.ending === 'end') socket.end();
}

/** The upstream's response, strictly parsed; undefined if it is invalid or incomplete. */
function modelOf({ bytes, method, ending }: ResponseCase): Response | undefined {
  const response = finalIn(bytes, method, ending === 'end');
  return typeof response === 'string' ? undefined : response;
}

/** The first response that is not informational. */
function finalIn(text: string, method: string, ended: boolean): ReturnType<typeof readResponse> {
  let at = 0;
  for (;;) {
    const response = readResponse(text, at, method === 'HEAD', ended);
    if (typeof response === 'string' || response.status >= 200) return response;
    at = response.end;
  }
}

function judge(asked: Asked, { text, ending }: Received, tally: Tally): void {
  const { one } = asked;
  ensure(ending !== 'hung', 'every request is answered, or its connection closed', text);
  const response = finalIn(text, one.method, ending === 'end');
  if (typeof response === 'string') {
    ensure(ending !== 'open' && response === 'incomplete', 'what is not whole is seen to be broken off', text, ending);
    tally.count('broken off');
    return;
  }
  ensure(response.end === text.length, 'there is nothing behind the response', text);
  const types = [...valuesOf(response, 'content-type'), ...valuesOf(response, 'envelope-content-type')];
  const isOurs = types.includes('application/problem+json');
  if (isOurs) {
    judgeRefusal(asked, response, tally);
    return;
  }
  const model = modelOf(one);
  ensure(model !== undefined, 'what is no whole response does not become one', text);
  ensure(response.status === model.status, 'the status is the status', model, response);
  const isSealed = valuesOf(response, 'envelope').join() === 'sealed';
  ensure(one.sealed || !isSealed, 'only an encrypting account gets anything sealed', response);
  if (!one.sealed) {
    ensure(response.body === model.body, 'the body is the body', model, response);
    tally.count('answered as it is');
    return;
  }
  const expected = decoded(model);
  ensure(expected !== undefined, 'what cannot be decoded is not sealed', model, response);
  ensure(isSealed === (expected !== ''), 'whatever there is of a body is sealed', model, response);
  if (isSealed)
    ensure(unsealed(response.body, acmeTest, 'hex') === expected, 'what is sealed is the body', model, response);
  tally.count('answered sealed');
}

function judgeRefusal({ one, heard }: Asked, response: Response, tally: Tally): void {
  const isSealed = valuesOf(response, 'envelope').join() === 'sealed';
  if (one.method === 'HEAD') {
    ensure([502, 503, 504].includes(response.status), 'a refusal says that the upstream failed', response);
    tally.count(`${response.status} to HEAD`);
    return;
  }
  const body = isSealed ? unsealed(response.body, acmeTest, 'hex') : response.body;
  const { code } = JSON.parse(body ?? '') as { readonly code: RefusalCode };
  const codes: readonly RefusalCode[] = [
    'upstream_unavailable',
    'upstream_timeout',
    'sealing_failed',
    'accounts_unavailable',
  ];
  ensure(
    codes.includes(code) && findRefusal(code).status === response.status,
    'a refusal says that the upstream failed',
    body,
  );
  ensure(
    isSealed === (one.sealed && findRefusal(code).sealed === true),
    'a refusal is sealed if its row says so',
    response,
  );
  // Except for timeouts on a busy machine, a valid response must not be refused.
  const isPlain = /^HTTP\/1\.1 200 OK\r\nContent-Length: \d+\r\n\r\n/.test(one.bytes) && modelOf(one) !== undefined;
  const isLost = !heard || one.ending === 'reset' || code === 'upstream_timeout';
  ensure(!isPlain || isLost, 'a plain response comes through', body);
  tally.count(code);
}

/** The body after its content coding was undone; undefined if the coding is unknown or does not match the body. */
function decoded(response: Response): string | undefined {
  const coding = valuesOf(response, 'content-encoding').join(', ').toLowerCase();
  if (response.body === '' || coding === '' || coding === 'identity') return response.body;
  const bytes = Buffer.from(response.body, 'latin1');
  try {
    if (coding === 'gzip') return gunzipSync(bytes).toString('latin1');
    return coding === 'br' ? brotliDecompressSync(bytes).toString('latin1') : undefined;
  } catch {
    return undefined;
  }
}

import type { Socket } from 'node:net';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import { refusalOf, type RefusalCode } from '../../../src/errors.ts';
import { acmeTest, configOf, keys } from '../../../test/support/sidecar.ts';
import { Addresses } from '../addresses.ts';
import { startByteServer } from '../byte-server.ts';
import { Client, type Received } from '../client.ts';
import { unsealed } from '../envelope/oracle.ts';
import { readAnswer, type Answer } from '../http/responses.ts';
import { valuesOf } from '../http/message.ts';
import { readRequest } from '../http/requests.ts';
import { pieces } from '../mutation.ts';
import { ensure, type OpenPart, type Part, type Tally } from '../part.ts';
import { startWatched } from '../sidecar.ts';
import { answerCases, type AnswerCase } from './arbitrary.ts';

/** A case under way. */
interface Asked {
  readonly one: AnswerCase;
  /** Whether the request came to the upstream on a connection that nothing was wrong with. */
  heard: boolean;
}

/** How long what goes wrong inside may take to show, in milliseconds. */
const afterglow = 50;

/** Whatever an upstream says in answer to a good request: it comes through as it is, or visibly not at all. */
export const answerPart: Part<AnswerCase> = {
  name: 'answer',
  share: 5,
  lanes: 192,
  cases: answerCases,
  open: openAnswerPart,
};

async function openAnswerPart(tally: Tally): Promise<OpenPart<AnswerCase>> {
  const cases = new Map<string, Asked>();
  const spoilt = new WeakSet<Socket>();
  const upstream = await startByteServer((bytes, socket) => {
    const request = readRequest(bytes);
    if (typeof request === 'string') return bytes;
    const asked = cases.get(valuesOf(request, 'x-lane').join());
    if (asked === undefined) return '';
    // An upstream that ends a connection, or says too much on it, may spoil the request behind.
    asked.heard = !spoilt.has(socket);
    if (asked.one.ending !== 'keep' || modelOf(asked.one)?.end !== asked.one.bytes.length) spoilt.add(socket);
    void say(asked.one, socket);
    return '';
  });
  const sidecar = await startWatched(configOf(upstream.origin, { timeouts: { upstream: 1_000, drain: 100 } }));
  const addresses = new Addresses();
  const clients = new Map<number, Client>();
  return {
    check: async (one, lane, alone) => {
      const client = clients.get(lane) ?? new Client(sidecar.port, addresses);
      clients.set(lane, client);
      ensure(client.unasked === '', 'nothing comes that nobody asked for', client.unasked);
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
      const faults = sidecar.takeFaults();
      ensure(faults.length === 0, 'nothing fails inside', faults);
    },
    close: async () => {
      for (const client of clients.values()) client.cut();
      await sidecar.stop();
      await upstream.close();
    },
  };
}

function requestOf({ method, sealed }: AnswerCase, lane: number): string {
  const lines = [
    `${method} ${sealed ? '/api/s2s/pay' : '/orders'} HTTP/1.1`,
    'Host: sandbox.pay.example',
    `Authorization: Bearer ${sealed ? keys.acme : keys.globex}`,
    `X-Lane: ${lane}`,
  ];
  return `${lines.join('\r\n')}\r\n\r\n`;
}

/** Says what the upstream says. What comes behind the end of its answer comes with it, or it would be another request's. */
async function say(one: AnswerCase, socket: Socket): Promise<void> {
  const answer = modelOf(one);
  const whole = answer === undefined ? one.bytes.length : Math.max(0, answer.end - 1);
  const places = one.cuts.map((cut) => cut % (whole + 1));
  for (const piece of pieces(one.bytes, places)) {
    socket.write(piece, 'latin1');
    await turn();
  }
  if (one.ending === 'reset') socket.resetAndDestroy();
  else if (one.ending === 'end') socket.end();
}

/** What a strict reader makes of the upstream's answer; undefined where it is none, or not whole. */
function modelOf({ bytes, method, ending }: AnswerCase): Answer | undefined {
  const answer = finalIn(bytes, method, ending === 'end');
  return typeof answer === 'string' ? undefined : answer;
}

/** The first answer that is not informational. */
function finalIn(text: string, method: string, ended: boolean): ReturnType<typeof readAnswer> {
  let at = 0;
  for (;;) {
    const answer = readAnswer(text, at, method === 'HEAD', ended);
    if (typeof answer === 'string' || answer.status >= 200) return answer;
    at = answer.end;
  }
}

function judge(asked: Asked, { text, ending }: Received, tally: Tally): void {
  const { one } = asked;
  ensure(ending !== 'hung', 'every request is answered, or its connection closed', text);
  const answer = finalIn(text, one.method, ending === 'end');
  if (typeof answer === 'string') {
    ensure(ending !== 'open' && answer === 'incomplete', 'what is not whole is seen to be broken off', text, ending);
    tally.count('broken off');
    return;
  }
  ensure(answer.end === text.length, 'there is nothing behind the answer', text);
  const isOurs = valuesOf(answer, 'cache-control').join() === 'no-store';
  if (isOurs) {
    judgeRefusal(asked, answer, tally);
    return;
  }
  const model = modelOf(one);
  ensure(model !== undefined, 'what is no whole answer does not become one', text);
  ensure(answer.status === model.status, 'the status is the status', model, answer);
  const isSealed = valuesOf(answer, 'envelope').join() === 'sealed';
  ensure(one.sealed || !isSealed, 'only an encrypting account gets anything sealed', answer);
  if (!one.sealed) {
    ensure(answer.body === model.body, 'the body is the body', model, answer);
    tally.count('answered as it is');
    return;
  }
  const expected = decoded(model);
  ensure(expected !== undefined, 'what cannot be decoded is not sealed', model, answer);
  ensure(isSealed === (expected !== ''), 'whatever there is of a body is sealed', model, answer);
  if (isSealed)
    ensure(unsealed(answer.body, acmeTest, 'hex') === expected, 'what is sealed is the body', model, answer);
  tally.count('answered sealed');
}

function judgeRefusal({ one, heard }: Asked, answer: Answer, tally: Tally): void {
  const isSealed = valuesOf(answer, 'envelope').join() === 'sealed';
  if (one.method === 'HEAD') {
    ensure(answer.status === 502 || answer.status === 504, 'a refusal says that the upstream failed', answer);
    tally.count(`${answer.status} to HEAD`);
    return;
  }
  const body = isSealed ? unsealed(answer.body, acmeTest, 'hex') : answer.body;
  const { code } = JSON.parse(body ?? '') as { readonly code: RefusalCode };
  const codes: readonly RefusalCode[] = ['upstream_unavailable', 'upstream_timeout', 'sealing_failed'];
  ensure(
    codes.includes(code) && refusalOf(code).status === answer.status,
    'a refusal says that the upstream failed',
    body,
  );
  ensure(isSealed === (one.sealed && refusalOf(code).sealed), 'a refusal is sealed if its row says so', answer);
  // What every reader understands has no reason to be refused; only how long it takes depends on the machine.
  const isPlain = /^HTTP\/1\.1 200 OK\r\nContent-Length: \d+\r\n\r\n/.test(one.bytes) && modelOf(one) !== undefined;
  const isLost = !heard || one.ending === 'reset' || code === 'upstream_timeout';
  ensure(!isPlain || isLost, 'a plain answer comes through', body);
  tally.count(code);
}

/** The body without its content coding; undefined where that is unknown, or the body not of it. */
function decoded(answer: Answer): string | undefined {
  const coding = valuesOf(answer, 'content-encoding').join(', ').toLowerCase();
  if (answer.body === '' || coding === '' || coding === 'identity') return answer.body;
  const bytes = Buffer.from(answer.body, 'latin1');
  try {
    if (coding === 'gzip') return gunzipSync(bytes).toString('latin1');
    return coding === 'br' ? brotliDecompressSync(bytes).toString('latin1') : undefined;
  } catch {
    return undefined;
  }
}

import { setTimeout as delay } from 'node:timers/promises';
import { Addresses } from '../addresses.ts';
import { Client, type Received } from '../client.ts';
import { isLast, readResponse, type Response } from '../http/responses.ts';
import { readRequests, type Requests } from '../http/requests.ts';
import { pieces } from '../mutation.ts';
import { ensure, type OpenPart, type Part, type Tally } from '../part.ts';
import { startWatched } from '../sidecar.ts';
import { accounts } from './accounts.ts';
import { requestCases, type RequestCase } from './arbitrary.ts';
import { judge } from './judge.ts';
import { SeeingUpstream } from './upstream.ts';

/** How long data from a disconnected client may still be in transit, in milliseconds. */
const afterglow = 50;

/** Sends the bytes of whole client connections through a real sidecar to an upstream that parses strictly. */
export const requestPart: Part<RequestCase> = {
  name: 'request',
  share: 15,
  lanes: 384,
  cases: requestCases,
  open: openRequestPart,
};

async function openRequestPart(tally: Tally): Promise<OpenPart<RequestCase>> {
  const upstream = new SeeingUpstream();
  // A request that stays incomplete waits for one of these. The upstream always responds, but may be late on a busy machine.
  const brief = { header: '2s', request: '2s', idle: '2s', drain: '100ms' };
  const timeouts = { connect: '30s', upstream: '30s', ...brief };
  const sidecars = await startWatched((bytes, socket) => upstream.read(bytes, socket), accounts, timeouts);
  const addresses = new Addresses();
  const clients = new Map<number, Client>();
  const clientOf = (lane: number): Client => {
    const client = clients.get(lane) ?? new Client(sidecars.entryOf(lane), addresses);
    clients.set(lane, client);
    return client;
  };
  return {
    check: async (one, lane, alone) => {
      const client = clientOf(lane);
      ensure(client.unasked === '', 'nothing comes without a request', client.unasked);
      await client.ready();
      try {
        await exchange(one, client, upstream, tally);
      } catch (error) {
        client.cut();
        throw error;
      }
      if (alone) await delay(afterglow);
      const faults = [upstream.takeFaults(), sidecars.takeFaults()];
      ensure(faults[0]?.length === 0, 'the upstream is sent nothing but requests', faults);
      ensure(faults[1]?.length === 0, 'nothing fails inside', faults);
    },
    close: async () => {
      for (const client of clients.values()) client.cut();
      await sidecars.stop();
    },
  };
}

/** Sends a case, and judges the result. */
async function exchange(one: RequestCase, client: Client, upstream: SeeingUpstream, tally: Tally): Promise<void> {
  const sent = readRequests(one.bytes);
  const { requests } = sent;
  const clean = sent.rest === '';
  await client.write(pieces(one.bytes, one.cuts));
  let received: Received;
  if (one.ending === 'cut') {
    client.cut();
    received = await client.receive(() => true);
    await delay(afterglow);
  } else {
    if (one.ending === 'finish') client.finish();
    received = await client.receive((text) => {
      const { responses, tunnel } = responsesIn(text, sent, false);
      if (tunnel !== undefined) return tunnel.length >= behind(responses, requests, one).length;
      // If other bytes follow the requests, only the end of the connection shows that no more responses will come.
      return clean && responses.length >= requests.length;
    });
  }
  const { text, ending } = received;
  ensure(ending !== 'hung', 'every request is answered, or its connection closed', text);
  const { responses, rest, tunnel } = responsesIn(text, sent, ending === 'end');
  // When Node ignores an Upgrade, it discards the rest of the piece, so requests in that rest get no response.
  const gone =
    one.ending !== 'wait' ||
    ending === 'reset' ||
    (tunnel === undefined && /\nConnection:.*\bUpgrade\b/i.test(one.bytes));
  ensure(rest === '' || gone, 'there is nothing but whole responses', rest);
  if (one.ending !== 'wait' && ending !== 'open') await delay(afterglow);
  const seen = upstream.take(client.address);
  judge({ sent, responses, seen, address: client.address, waited: !gone, reports: client.entry.reports }, tally);
  if (tunnel !== undefined) {
    const said = behind(responses, requests, one);
    const heard = seen.findLast(({ status }) => status === 101)?.tunnelled ?? '';
    ensure(said.startsWith(heard) && heard.startsWith(tunnel), 'a tunnel changes nothing', said, heard, tunnel);
    ensure(gone || tunnel === said, 'a tunnel loses nothing', said, heard, tunnel);
    tally.count('tunnels');
    client.cut();
  }
  if (clean) tally.count('connections with nothing but requests');
  // A connection that one side wants to end is not reused, even if the other side has not noticed it yet.
  const last = responses.at(-1);
  if (one.ending === 'finish' || (last !== undefined && isLast(last))) client.cut();
}

/** The bytes that were sent after the request that got the last response. */
function behind(responses: readonly Response[], requests: Requests['requests'], { bytes }: RequestCase): string {
  const request = requests[responses.length - 1];
  return request === undefined ? '' : bytes.slice(request.end);
}

/** The final responses in the received bytes, and the bytes after them, which may belong to a tunnel. */
function responsesIn(
  text: string,
  { requests, rest }: Requests,
  ended: boolean,
): { readonly responses: readonly Response[]; readonly rest: string; readonly tunnel: string | undefined } {
  const responses: Response[] = [];
  let at = 0;
  while (at < text.length) {
    const isHead = (requests[responses.length]?.method ?? methodOf(rest)) === 'HEAD';
    let response = readResponse(text, at, isHead, ended);
    // Invalid bytes may look like a HEAD, although the response has a body. The connection ends in any case.
    if (isHead && typeof response !== 'string' && isLast(response) && response.end < text.length) {
      response = readResponse(text, at, false, ended);
    }
    if (typeof response === 'string') break;
    if (response.status >= 200 || response.status === 101) responses.push(response);
    at = response.end;
    if (response.status === 101) return { responses, rest: '', tunnel: text.slice(at) };
  }
  return { responses, rest: text.slice(at), tunnel: undefined };
}

/** The method at the start of bytes that are not a request. */
function methodOf(rest: string): string | undefined {
  return /^\s*([A-Z]+) /.exec(rest)?.[1];
}

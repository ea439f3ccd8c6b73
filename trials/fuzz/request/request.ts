import { setTimeout as delay } from 'node:timers/promises';
import { configOf, route, routes, targetOf } from '../../../test/support/sidecar.ts';
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

/** How long what a client that left has sent may still be on its way, in milliseconds. */
const afterglow = 50;

/** Whole connections of merchants, as bytes, through a real sidecar to an upstream that reads strictly. */
export const requestPart: Part<RequestCase> = {
  name: 'request',
  share: 15,
  lanes: 384,
  cases: requestCases,
  open: openRequestPart,
};

async function openRequestPart(tally: Tally): Promise<OpenPart<RequestCase>> {
  const upstream = new SeeingUpstream();
  const origin = await upstream.start();
  const target = targetOf(origin);
  const sidecar = await startWatched(
    configOf(origin, {
      environments: [
        { name: 'test', hosts: ['sandbox.pay.example'], upstream: target },
        { name: 'live', hosts: ['api.pay.example'], upstream: target },
      ],
      accounts,
      routes: [...routes, route('/socket', { upgrade: true })],
      limits: { failedKeys: { attempts: 1_000_000, window: 60_000 } },
      // What never becomes whole is waited for as briefly as that.
      timeouts: { header: 2_000, request: 2_000, idle: 2_000, drain: 100 },
    }),
  );
  const addresses = new Addresses();
  const clients = new Map<number, Client>();
  const clientOf = (lane: number): Client => {
    const client = clients.get(lane) ?? new Client(sidecar.port, addresses);
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
      const faults = [upstream.takeFaults(), sidecar.takeFaults()];
      ensure(faults[0]?.length === 0, 'the upstream is sent nothing but requests', faults);
      ensure(faults[1]?.length === 0, 'nothing fails inside', faults);
    },
    close: async () => {
      for (const client of clients.values()) client.cut();
      await sidecar.stop();
      await upstream.close();
    },
  };
}

/** Sends a case and judges what comes of it. */
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
    // Where something is no request, only the end of the connection tells that there is no more to come.
    received = await client.receive(
      (text) => clean && answersIn(text, sent, false).responses.length >= requests.length,
    );
  }
  const { text, ending } = received;
  ensure(ending !== 'hung', 'every request is answered, or its connection closed', text);
  const { responses, rest } = answersIn(text, sent, ending === 'end');
  // Behind an Upgrade that is ignored Node drops the rest of the piece, which is then neither served nor answered.
  const gone = one.ending !== 'wait' || ending === 'reset' || /\nConnection: Upgrade\r/i.test(one.bytes);
  ensure(rest === '' || gone, 'there is nothing but whole responses', rest);
  if (one.ending !== 'wait' && ending !== 'open') await delay(afterglow);
  const seen = upstream.take(client.address);
  judge({ sent, responses, seen, address: client.address, waited: !gone }, tally);
  if (clean) tally.count('connections with nothing but requests');
  // A connection that is to be ended is, by both sides.
  if (one.ending === 'finish') client.cut();
}

/** The final answers in what came, and what is behind them. */
function answersIn(
  text: string,
  { requests, rest }: Requests,
  ended: boolean,
): { readonly responses: readonly Response[]; readonly rest: string } {
  const responses: Response[] = [];
  let at = 0;
  while (at < text.length) {
    const isHead = (requests[responses.length]?.method ?? methodOf(rest)) === 'HEAD';
    let response = readResponse(text, at, isHead, ended);
    // What no request could be made of may have been a HEAD, but is not answered as one; the connection ends in any case.
    if (isHead && typeof response !== 'string' && isLast(response) && response.end < text.length) {
      response = readResponse(text, at, false, ended);
    }
    if (typeof response === 'string') break;
    if (response.status >= 200) responses.push(response);
    at = response.end;
  }
  return { responses, rest: text.slice(at) };
}

/** The method of what is no request. */
function methodOf(rest: string): string | undefined {
  return /^\s*([A-Z]+) /.exec(rest)?.[1];
}

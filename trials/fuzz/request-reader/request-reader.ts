import type { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { Incoming, type IncomingOwner } from '../../../src/http1/incoming.ts';
import type { RequestFault, RequestHead } from '../../../src/http1/parse/request-reader.ts';
import { pieces } from '../mutation.ts';
import { ensure, type Part } from '../part.ts';
import { readerCases, type ReaderCase } from './arbitrary.ts';
import { Llhttp, type ReadRequest } from './llhttp.ts';

/** The requests that the sidecar's reader accepts must be the ones that llhttp reads. */
export const requestReaderPart: Part<ReaderCase> = {
  name: 'request-reader',
  share: 20,
  lanes: 1,
  cases: readerCases,
  open: (tally) => {
    const llhttp = new Llhttp();
    return Promise.resolve({
      check: async (one) => {
        const bytes = withoutUpgrade(one.bytes);
        const whole = await read([bytes]);
        const theirs = llhttp.read(Buffer.from(bytes, 'latin1'));
        compare(whole, theirs.requests, theirs.fault);
        const split = await read(one.cuts.length === 0 ? bytes.split('') : pieces(bytes, one.cuts));
        ensure(JSON.stringify(split) === JSON.stringify(whole), 'any split gives the same events', split, whole);
        tally.count(kindOf(whole, theirs.requests.length));
      },
      close: () => Promise.resolve(),
    });
  },
};

function kindOf({ requests, ending }: Understood, theirs: number): string {
  if (requests.length === theirs) return theirs === 0 ? 'refused by both' : 'the same requests in both';
  return ending === 'closed' ? 'closed here only' : `${ending} here only`;
}

/** Renames these fields to meaningless ones, because llhttp ends the message in its own way if an upgrade is requested. */
function withoutUpgrade(bytes: string): string {
  return bytes.replaceAll(/(?<=\r\n)(?:upgrade|proxy-connection)(?=:)/gi, (name) => `X${name.slice(1)}`);
}

/** A connection as the sidecar understands it. */
interface Understood {
  readonly requests: readonly ReadRequest[];
  /** Why reading has ended. `waiting` means that the reader waits for more bytes. */
  readonly ending: RequestFault | 'waiting' | 'closed';
}

const withoutBackpressure = {} as Socket;

/** The number of turns after which everything that arrived while the reader was suspended has been read. */
const turnsOfRest = 4;

/** Reads the pieces of a connection as if each request were served immediately. */
async function read(parts: readonly string[]): Promise<Understood> {
  const requests: ReadRequest[] = [];
  let ending: Understood['ending'] = 'waiting';
  let failure: unknown;
  let completed = 0;
  let rests = false;
  const end = (request: ReadRequest): void => {
    request.complete = true;
    completed += 1;
    if (request.keepAlive) {
      incoming.expectHead();
      return;
    }
    ending = 'closed';
    incoming.discard();
  };
  const owner: IncomingOwner = {
    socket: withoutBackpressure,
    onSuspend: (resume) => {
      rests = true;
      setImmediate(() => {
        rests = false;
        resume();
      });
    },
    limits: { maxHeadSize: 4_096, maxFields: 100 },
    onHeadBegins: () => {},
    onHead: (head: RequestHead, whole: Buffer | undefined) => {
      const { method, target, minor, fields, keepAlive } = head;
      const request = {
        method,
        target,
        minor,
        fields,
        keepAlive,
        body: whole?.toString('latin1') ?? '',
        complete: false,
      };
      requests.push(request);
      if (whole === undefined) incoming.readBody();
      else end(request);
    },
    onFault: (fault) => (ending = fault),
    onBody: (piece) => {
      const request = requests.at(-1);
      if (request !== undefined) request.body += piece.toString('latin1');
    },
    onBodyEnd: (fault) => {
      const request = requests.at(-1);
      if (fault !== undefined) ending = fault;
      else if (request !== undefined) end(request);
    },
    onHeld: () => true,
    destroy: () => {},
    fail: (error) => (failure = error),
  };
  const incoming = new Incoming(owner);
  for (const part of parts) {
    const bytes = Buffer.from(part, 'latin1');
    let before = completed;
    incoming.receive(bytes);
    bytes.fill(0xdb);
    // After a request, the reader reads the next head in a separate turn. After many small pieces, it also reads everything else in
    // separate turns.
    for (let turns = rests ? turnsOfRest : 0; turns > 0 || before < completed; turns -= 1) {
      if (rests) turns = turnsOfRest;
      before = completed;
      await turn();
    }
  }
  if (failure !== undefined) throw failure;
  return { requests, ending };
}

function compare({ requests, ending }: Understood, theirs: readonly ReadRequest[], fault: string | undefined): void {
  for (const [i, ours] of requests.entries()) {
    const other = theirs[i];
    ensure(other !== undefined, 'llhttp accepts the head, too', fault, ours);
    const { method, target, minor, fields, keepAlive, body, complete } = ours;
    ensure(
      method === other.method && target === other.target && minor === other.minor,
      'the line is the same',
      ours,
      other,
    );
    ensure(JSON.stringify(fields) === JSON.stringify(other.fields), 'the fields are the same', ours, other);
    ensure(!keepAlive || other.keepAlive, 'a connection that goes on does so for llhttp', ours, other);
    if (complete) ensure(other.complete && body === other.body, 'the body is the same', fault, ours, other);
    else ensure(other.body.startsWith(body), 'the body begins alike', ours, other);
  }
  const last = requests.at(-1);
  if (last?.complete === false && ending === 'waiting') {
    ensure(theirs.length === requests.length && !theirs.at(-1)?.complete, 'llhttp waits, too', fault, last, theirs);
  }
}

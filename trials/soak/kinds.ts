import { setTimeout } from 'node:timers/promises';
import { KeepAliveClient, type Asked, type Outcome } from '../load/client.ts';
import { headersOf, plainCharge, sealedCharge, sealedLook, type Exchange } from '../load/pair.ts';
import { keys } from '../../test/support/sidecar.ts';
import type { Targets } from './targets.ts';
import { abort, slowly, talk } from './faulty-clients.ts';

/** One turn of a client. Returns the problem, or undefined if there is none. */
export type Turn = (turn: number) => Promise<string | undefined>;

/** A kind of client. */
export interface Kind {
  readonly name: string;
  /** The number of clients of this kind. */
  readonly lanes: number;
  /** Milliseconds between two turns. */
  readonly pause: number;
  readonly begin: (targets: Targets, client: KeepAliveClient) => Turn;
}

export const kinds: readonly Kind[] = [
  {
    name: 'enveloped',
    lanes: 4,
    pause: 10,
    begin:
      ({ pair, id }, client) =>
      (turn) => {
        const sealing = pair[turn % 2 === 0 ? 0 : 1];
        if (turn % 3 === 0) return asExpected(client, sealedLook(pair, id(), '/api/s2s/looks'));
        return asExpected(client, sealedCharge(pair, sealing, id(), '/api/s2s/charges'));
      },
  },
  {
    name: 'plain',
    lanes: 4,
    pause: 10,
    begin:
      ({ pair, id }, client) =>
      (turn) =>
        asExpected(client, plainCharge(pair, id(), turn % 5 === 0 ? '/charges/slow' : '/charges')),
  },
  {
    name: 'large bodies',
    lanes: 2,
    pause: 200,
    begin:
      ({ pair, id }, client) =>
      (turn) => {
        if (turn % 2 === 0) return asExpected(client, plainCharge(pair, id(), '/charges/padded/1000000', 2_000_000));
        return asExpected(client, sealedCharge(pair, pair[0], id(), '/api/s2s/charges/padded/1000000', 400_000));
      },
  },
  {
    name: 'refused',
    lanes: 2,
    pause: 30,
    begin: ({ id }, client) => {
      const refused = refusedRequests();
      return async (turn) => {
        const { codes, asked } = refused[turn % refused.length] ?? {};
        if (asked === undefined || codes === undefined) return undefined;
        const outcome = await client.ask({ ...asked, headers: { ...asked.headers, 'Idempotency-Key': id() } });
        return codes.includes(codeOf(outcome)) ? undefined : `${codes.join(' or ')}: ${described(outcome)}`;
      };
    },
  },
  {
    name: 'upstream faults',
    lanes: 3,
    pause: 50,
    begin: ({ id }, client) => {
      // A response that stays incomplete is aborted if the sidecar had begun to send it; otherwise, the request is
      // refused.
      const faults: readonly [fault: string, ...became: string[]][] = [
        ['reset', '502'],
        ['garbage', '502'],
        ['short', '502', 'broken'],
        ['error', '500'],
      ];
      return async (turn) => {
        const [fault = '', ...expected] = faults[turn % faults.length] ?? [];
        const enveloped = turn % 2 === 0;
        const outcome = await client.ask({
          method: 'GET',
          path: `${enveloped ? '/api/s2s' : ''}/faults/${fault}`,
          headers: headersOf(enveloped ? keys.acme : keys.globex, id()),
        });
        const became = outcome.kind === 'answered' ? String(outcome.status) : outcome.kind;
        return expected.includes(became) ? undefined : `${fault} became ${described(outcome)}`;
      };
    },
  },
  {
    name: 'upstream silent',
    lanes: 2,
    pause: 50,
    begin:
      ({ id }, client) =>
      async (turn) => {
        const [path, key] = turn % 2 === 0 ? ['/faults/silent', keys.globex] : ['/api/s2s/faults/silent', keys.acme];
        const outcome = await client.ask({ method: 'GET', path, headers: headersOf(key, id()) });
        return outcome.kind === 'answered' && outcome.status === 504 ? undefined : described(outcome);
      },
  },
  { name: 'leaving early', lanes: 3, pause: 30, begin: (targets) => (turn) => abort(targets, turn) },
  { name: 'slow', lanes: 3, pause: 30, begin: (targets) => (turn) => slowly(targets, turn) },
  { name: 'WebSockets', lanes: 3, pause: 30, begin: (targets) => (turn) => talk(targets, turn) },
];

interface Refused {
  readonly codes: readonly string[];
  readonly asked: Asked;
}

function refusedRequests(): readonly Refused[] {
  const bearer = (key: string): Record<string, string> => ({ Authorization: `Bearer ${key}` });
  const get = (path: string, headers = bearer(keys.globex)): Asked => ({ method: 'GET', path, headers });
  const post = (body: string): Asked => ({ method: 'POST', path: '/api/s2s/x', headers: bearer(keys.acme), body });
  return [
    { codes: ['missing_api_key'], asked: get('/x', {}) },
    { codes: ['invalid_api_key', 'too_many_attempts'], asked: get('/x', bearer(`${keys.globex}0`)) },
    { codes: ['environment_mismatch'], asked: get('/x', bearer(keys.acmeLive)) },
    { codes: ['ambiguous_request'], asked: get('/a/../x') },
    { codes: ['method_not_allowed'], asked: get('/only/post') },
    { codes: ['envelope_required'], asked: post('{"amount":1}') },
    { codes: ['envelope_malformed'], asked: post('amount') },
    { codes: ['decryption_failed', 'too_many_attempts'], asked: post(JSON.stringify({ data: '0'.repeat(64) })) },
  ];
}

async function asExpected(client: KeepAliveClient, exchange: Exchange): Promise<string | undefined> {
  const outcome = await client.ask(exchange.asked);
  return outcome.kind === 'answered' ? exchange.complaint(outcome) : described(outcome);
}

function codeOf(outcome: Outcome): string {
  return outcome.kind === 'answered' ? (/"code":"(\w+)"/.exec(outcome.body)?.[1] ?? '') : '';
}

function described(outcome: Outcome): string {
  return outcome.kind === 'answered' ? `${outcome.status} ${outcome.body.slice(0, 200)}` : JSON.stringify(outcome);
}

/** Runs all kinds of clients until it is ended. Collects the number of their turns and their problems. */
export class Crowd {
  readonly turns = new Map<string, number>();
  readonly problems: string[] = [];
  readonly #running: Promise<unknown>;
  #ended = false;

  constructor(targets: Targets) {
    this.#running = Promise.all(
      kinds.flatMap((kind) => Array.from({ length: kind.lanes }, (_, lane) => this.#run(kind, targets, lane))),
    );
  }

  async end(): Promise<void> {
    this.#ended = true;
    await this.#running;
  }

  async #run({ name, pause, begin }: Kind, targets: Targets, lane: number): Promise<void> {
    const client = new KeepAliveClient(targets.port, targets.tls);
    const take = begin(targets, client);
    // The lanes of a kind begin with different turns, so that they do different things at the same time.
    for (let turn = lane; !this.#ended; turn += 1) {
      const problem = await take(turn);
      if (problem !== undefined) this.problems.push(`${name}: ${problem}`);
      this.turns.set(name, (this.turns.get(name) ?? 0) + 1);
      await setTimeout(pause);
    }
    client.close();
  }
}

import { createServer } from 'node:http';
import type { AddressInfo, Server } from 'node:net';
import { Driver, type Outcome } from '../conformance/driver.ts';
import { Envelope } from '../typescript/envelope.ts';
import { Core } from './core.ts';
import { changing, honest, hostile, Proxy, says, type Behaviour } from './proxy.ts';
import { accounts, publicKey, Sidecar, type Pair } from './sidecar.ts';

const { acme, initech } = accounts;
const json = { 'Content-Type': 'application/json' };
const html = { 'Content-Type': 'text/html' };
/** A request takes longer than this only if it never gets a response. */
const unanswered = 300;

/** A core, a sidecar, and a proxy in front of it. */
export class Stage {
  readonly core = new Core();
  readonly proxy = new Proxy(() => this.sidecar.port);
  sidecar: Sidecar = undefined as never;
  url = '';
  namesForwarded = false;

  static async build(): Promise<Stage> {
    const stage = new Stage();
    stage.sidecar = await Sidecar.start(await listen(stage.core.server));
    stage.url = `http://127.0.0.1:${await listen(stage.proxy.server)}`;
    stage.namesForwarded = await stage.sidecar.namesForwarded();
    return stage;
  }

  async close(): Promise<void> {
    await this.sidecar.stop();
    for (const server of [this.core.server, this.proxy.server]) {
      server.close();
      server.closeAllConnections();
    }
  }
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

interface Call {
  readonly account?: Pair & { readonly apiKey: string };
  readonly headers?: Record<string, string>;
  readonly body?: string;
  readonly [option: string]: unknown;
}

/** Runs the scenarios on one client of a kit. */
export class Scenarios {
  readonly failures: string[] = [];
  tried = 0;
  readonly #stage: Stage;
  readonly #driver: Driver;
  readonly #client: string;
  #references = 0;

  constructor(stage: Stage, driver: Driver, client: string) {
    this.#stage = stage;
    this.#driver = driver;
    this.#client = client;
  }

  async all(hostileRuns: number): Promise<void> {
    await this.#ordinary();
    await this.#refusals();
    await this.#liars();
    await this.#retries();
    await this.#hostile(hostileRuns);
  }

  async #ordinary(): Promise<void> {
    for (const [name, account] of Object.entries(accounts)) {
      const { body, reference } = this.#payment();
      const charged = await this.#call('POST', '/api/s2s/charge', { account, body, headers: json });
      this.#check(`charge as ${name}`, charged, { status: 201, type: 'application/json' });
      this.#check(`${name} was charged once`, { charges: this.#stage.core.charges(reference) }, { charges: 1 });
      const listed = await this.#call('GET', '/api/s2s/transactions', { account });
      this.#check(`list as ${name}`, listed, { status: 200, body: '{"data":[{"name":"Zoë €😀"}],"has_more":false}' });
    }
    this.#check('204', await this.#call('DELETE', '/api/s2s/transactions/1'), { status: 204, body: '' });
    this.#check('HEAD', await this.#call('HEAD', '/api/s2s/transactions'), { status: 200, body: '' });
    const failed = await this.#call('POST', '/api/s2s/refund', { body: '{}', headers: json });
    this.#check('a sealed 422', failed, { status: 422, body: '{"error":{"code":"refund_exceeds_charge"}}' });
    const report = await this.#call('GET', '/api/s2s/report');
    this.#check('text/plain', report, { status: 200, type: 'text/plain; charset=utf-8', body: 'a;b\r\n1;é\r\n' });
    const plain = await this.#call('POST', '/api/v1/echo', { body: '{"a":1}', headers: json });
    this.#check('a path that is not sealed', plain, { status: 200, body: '{"a":1}' });
    const { key, iv } = acme;
    const tested = await this.#call('POST', '/api/s2s/aes-encrypt', { body: '{"a":1}', headers: { ...json, key, iv } });
    const data = new Envelope(acme).sealBody('{"a":1}');
    this.#check('a test endpoint', tested, { status: 200, body: data });
    const large = await this.#call('GET', '/api/s2s/large');
    this.#check('a response beyond the bound', large, { error: { type: 'outcome_unknown', code: 'too_large' } });
  }

  async #refusals(): Promise<void> {
    const { body, reference } = this.#payment();
    const charge = { body, headers: json };
    const unknown = { ...acme, apiKey: 'sk_test_unknownunknownunknown' };
    const none = { charges: 0 };
    const refusal = { type: 'refusal' };
    const unknownKey = await this.#call('POST', '/api/s2s/charge', { ...charge, account: unknown });
    this.#check('an unknown API key', unknownKey, { error: { ...refusal, code: 'invalid_api_key', status: 401 } });
    const wrong = await this.#call('POST', '/api/s2s/charge', { ...charge, account: { ...acme, key: initech.key } });
    this.#check('wrong credentials', wrong, { error: { ...refusal, code: 'decryption_failed', status: 400 } });
    this.#check('wrong credentials: the hint', { hint: typeof wrong.error?.['hint'] }, { hint: 'string' });
    this.#check('wrong credentials: the id', { id: typeof wrong.error?.['request_id'] }, { id: 'string' });
    const notPermitted = await this.#call('POST', '/api/s2s/charge', {
      ...charge,
      account: { ...acme, apiKey: publicKey },
    });
    this.#check('a sealed refusal', notPermitted, { error: { ...refusal, code: 'key_not_permitted', status: 403 } });
    const { received } = this.#stage.proxy;
    const sum = (): number => [...received.values()].reduce((total, each) => total + each, 0);
    const sent = sum();
    const quoted = await this.#call('POST', '/api/s2s/charge', {
      ...charge,
      account: { ...acme, key: `"${acme.key}"` },
    });
    this.#check('bad credentials', quoted, { error: { type: 'envelope', code: 'key_quoted' } });
    this.#check('bad credentials send nothing', { sent: sum() - sent }, { sent: 0 });
    this.#check('no refused payment was made', { charges: this.#stage.core.charges(reference) }, none);
    if (this.#stage.namesForwarded) {
      this.#check('a refusal says that nothing was forwarded', wrong, { error: { forwarded: 'no' } });
    }
    const refused = { error: { type: 'outcome_unknown', code: 'refused' } };
    const broken = await this.#pay('/api/s2s/broken');
    this.#check('the core hangs up', broken, { ...refused, charges: 1 });
    const cause = broken.error?.['refusal'] as Record<string, unknown> | undefined;
    this.#check('the core hangs up: the code', { ...cause }, { type: 'refusal', code: 'upstream_unavailable' });
  }

  async #liars(): Promise<void> {
    const stranger = new Envelope(initech);
    const unknown = (code: string): object => ({ error: { type: 'outcome_unknown', code }, charges: 1, received: 1 });
    const text = (body: string) => Buffer.from(body);
    const liars: readonly (readonly [name: string, behaviour: Behaviour, code: string])[] = [
      ['an unsealed 200', changing(() => ({ status: 200, headers: json, body: text('{"status":"ok"}') })), 'unsealed'],
      ['a 200 of HTML', changing(() => ({ status: 200, headers: html, body: text('<p>Hello</p>') })), 'unsealed'],
      [
        'a plain body that is called sealed',
        changing((reply) => ({ ...reply, body: text('{"status":"ok"}') })),
        'not_opened',
      ],
      ['an empty body that is called sealed', changing((reply) => ({ ...reply, body: text('') })), 'not_opened'],
      [
        "another account's",
        changing((reply) => ({ ...reply, body: text(stranger.sealBody('{"amount":1}')) })),
        'not_opened',
      ],
      ['cut by a block', changing((reply) => ({ ...reply, body: text(cut(reply.body, 32)) })), 'not_opened'],
      ['cut by a digit', changing((reply) => ({ ...reply, body: text(cut(reply.body, 1)) })), 'not_opened'],
      ['cut in the JSON', changing((reply) => ({ ...reply, body: reply.body.subarray(0, -2) })), 'not_opened'],
      [
        'a second member',
        changing((reply) => ({ ...reply, body: text(reply.body.toString().replace('}', ',"a":1}')) })),
        'not_opened',
      ],
      [
        'bytes that are not UTF-8',
        changing((reply) => ({ ...reply, body: Buffer.concat([reply.body, Buffer.of(0xff)]) })),
        'not_opened',
      ],
      [
        "another request's",
        changing((reply) => ({ ...reply, headers: { ...reply.headers, 'x-request-id': 'another' } })),
        'swapped',
      ],
      ['502', changing(() => ({ status: 502, headers: html, body: text('<p>Bad gateway</p>') })), 'status'],
      [
        '503',
        changing(() => ({ status: 503, headers: { ...html, 'Retry-After': '0' }, body: text('<p>Wait</p>') })),
        'status',
      ],
      ['504 without a body', changing(() => ({ status: 504, headers: {}, body: text('') })), 'status'],
    ];
    for (const [name, behaviour, code] of liars) {
      this.#check(`a proxy says: ${name}`, await this.#pay('/api/s2s/charge', behaviour), unknown(code));
    }
    const page = '<p>Verboten: é</p>';
    const survives = await this.#pay('/api/s2s/charge', says(403, html, page));
    this.#check('an error of HTML survives', survives, { status: 403, type: 'text/html', body: page, charges: 0 });
    const broken = await this.#pay('/api/s2s/charge', says(500, json, '{"error":'));
    this.#check('an error of half a JSON survives', broken, { status: 500, body: '{"error":', charges: 0 });
    let followed = 0;
    const elsewhere = createServer((_request, response) => {
      followed += 1;
      response.end();
    });
    const location = `http://127.0.0.1:${await listen(elsewhere)}/`;
    for (const status of [302, 307]) {
      const moved = await this.#pay('/api/s2s/charge', says(status, { Location: location }, ''));
      this.#check(`a ${status} is not followed`, { ...moved, followed }, { status, received: 1, followed: 0 });
    }
    elsewhere.close();
    const plain = changing(() => ({ status: 200, headers: json, body: text('{"status":"ok"}') }));
    const migrating = await this.#pay('/api/s2s/charge', plain, { migrating: true });
    this.#check('an unsealed 200 in a migration', migrating, { status: 200, body: '{"status":"ok"}' });
    const replaced = changing((reply) => ({ ...reply, headers: { ...reply.headers, 'x-request-id': 'another' } }));
    const anyId = await this.#pay('/api/s2s/charge', replaced, { any_id: true });
    this.#check('a gateway that replaces X-Request-Id', anyId, { status: 201, charges: 1, received: 1 });
  }

  async #retries(): Promise<void> {
    const problem = (forwarded: string): string =>
      JSON.stringify({
        code: 'overloaded',
        status: 503,
        request_id: 'r',
        title: 'Overloaded',
        ...(forwarded && { forwarded }),
      });
    const refusing = (times: number, forwarded: string, headers: Record<string, string>): Behaviour => {
      let left = times;
      const refuse = says(503, { 'Content-Type': 'application/problem+json', ...headers }, problem(forwarded));
      return (exchange) => {
        left -= 1;
        return left < 0 ? honest(exchange) : refuse(exchange);
      };
    };
    const at0 = { 'Retry-After': '0' };
    const again = await this.#pay('/api/s2s/charge', refusing(2, 'no', at0));
    this.#check('sent again after `forwarded: no` and Retry-After', again, { status: 201, charges: 1, received: 3 });
    const refused = { error: { type: 'refusal', code: 'overloaded', forwarded: 'no' }, charges: 0 };
    const thrice = await this.#pay('/api/s2s/charge', refusing(9, 'no', at0));
    this.#check('given up after three', thrice, { ...refused, received: 3 });
    this.#check('given up after three: Retry-After', thrice, { error: { retry_after: 0, request_id: 'r' } });
    const long = await this.#pay('/api/s2s/charge', refusing(9, 'no', { 'Retry-After': '3600' }));
    this.#check('not sent again after an hour', long, { ...refused, received: 1 });
    const noTime = await this.#pay('/api/s2s/charge', refusing(9, 'no', {}));
    this.#check('not sent again without Retry-After', noTime, { ...refused, received: 1 });
    for (const forwarded of ['maybe', '']) {
      const maybe = await this.#pay('/api/s2s/charge', refusing(9, forwarded, at0));
      const unknown = { error: { type: 'outcome_unknown', code: 'refused' }, received: 1 };
      this.#check(`not sent again after forwarded: ${forwarded || 'nothing'}`, maybe, unknown);
    }
    const outage = await this.#pay('/api/s2s/outage');
    const unknown = { error: { type: 'outcome_unknown', code: 'status', status: 503 }, charges: 1, received: 1 };
    this.#check("not sent again after the core's own 503", outage, unknown);
  }

  /** Each payment must end with exactly one charge, or with OutcomeUnknown. */
  async #hostile(runs: number): Promise<void> {
    const names = Object.keys(hostile) as (keyof typeof hostile)[];
    let random = 7;
    /** Whether the connection may already be closed, or may deliver another response before the right one. */
    let isDoubtful = false;
    let before = 'pass';
    for (let run = 0; run < runs; run += 1) {
      random = (random * 1_103_515_245 + 12_345) % 2_147_483_648;
      const name = names[Math.floor((random / 2_147_483_648) * names.length)] ?? 'pass';
      const options = name === 'answered late' ? { timeout_ms: unanswered } : {};
      const { reference, ...outcome } = await this.#pay('/api/s2s/charge', hostile[name], options);
      const { status, charges, received, error } = outcome;
      const answered =
        status === 201 && charges === 1 && received === 1 && String(outcome['body']).includes(`"${reference}"`);
      const unknown = error?.['type'] === 'outcome_unknown' && Number(charges) <= 1 && Number(received) <= 1;
      const mayFail = /^(?:cut|reset|answered|response)/.test(name) || isDoubtful;
      const maySucceed = !/^(?:cut|reset|answered)/.test(name);
      this.#check(
        `run ${run}: ${name} after ${before}`,
        { ...outcome, right: (maySucceed && answered) || (mayFail && unknown) },
        { right: true },
      );
      before = name;
      isDoubtful = /^(?:closed|response)/.test(name) || (isDoubtful && !answered);
    }
  }

  #payment(): { readonly body: string; readonly reference: string } {
    this.#references += 1;
    const reference = `order-${this.#client}-${this.#references}`;
    return { body: JSON.stringify({ amount: 1500, currency: 'EUR', reference }), reference };
  }

  /** Sends a payment through the proxy. Also returns how often it was received and charged. */
  async #pay(
    path: string,
    behaviour: Behaviour = honest,
    options: Call = {},
  ): Promise<Outcome & { reference: string }> {
    const { body, reference } = this.#payment();
    const { proxy, core } = this.#stage;
    proxy.behaviour = behaviour;
    const outcome = await this.#call('POST', path, {
      body,
      headers: { ...json, 'Idempotency-Key': reference },
      ...options,
    });
    proxy.behaviour = honest;
    return { ...outcome, reference, charges: core.charges(reference), received: proxy.received.get(reference) ?? 0 };
  }

  #call(method: string, path: string, { account = acme, headers = {}, ...more }: Call = {}): Promise<Outcome> {
    const { apiKey, ...pair } = account;
    const authorized = { Authorization: `Bearer ${apiKey}`, ...headers };
    const url = this.#stage.url + path;
    return this.#driver.ask({ op: 'call', client: this.#client, url, method, headers: authorized, ...pair, ...more });
  }

  #check(name: string, outcome: Outcome, expected: object): void {
    this.tried += 1;
    if (!contains(outcome, expected)) {
      this.failures.push(`${name}: ${JSON.stringify(outcome).slice(0, 300)}`);
    }
  }
}

/** An envelope without the last digits of its ciphertext. */
function cut(body: Buffer, digits: number): string {
  return body.toString().replace(new RegExp(`.{${digits}}("\\})$`), '$1');
}

function contains(value: unknown, expected: unknown): boolean {
  if (typeof expected !== 'object' || expected === null) return value === expected;
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(expected).every(([name, each]) => contains((value as Record<string, unknown>)[name], each));
}

/**
 * Replaces acme's credentials while two instances send payments. Each instance has one pair at a time: the second gets
 * the new pair at once, the first later. Returns the calls that failed.
 */
export async function rotation(stage: Stage, open: () => Driver, client: string): Promise<readonly string[]> {
  const failures: string[] = [];
  const [first, second] = [open(), open()];
  let [firstPair, secondPair]: [Pair, Pair] = [acme, acme];
  const state = { ending: false, count: 0 };

  const call = (driver: Driver, pair: Pair, method: string, path: string, body?: string): Promise<Outcome> => {
    const headers = { Authorization: `Bearer ${acme.apiKey}`, ...(body !== undefined && json) };
    const operation = { op: 'call', client, url: stage.url + path, method, headers, ...pair, body };
    return driver.ask(operation).catch((error: unknown) => ({ error: { message: String(error) } }));
  };
  const traffic = async (driver: Driver, pair: () => Pair): Promise<void> => {
    while (!state.ending && failures.length === 0) {
      state.count += 1;
      const { count } = state;
      const charge = JSON.stringify({ amount: count, reference: `rotation-${client}-${count}` });
      const charged = await call(driver, pair(), 'POST', '/api/s2s/charge', charge);
      if (charged['status'] !== 201) failures.push(`charge: ${JSON.stringify(charged)}`);
      // Without fingerprints, the response to a request without a body is sealed with the previous pair.
      if (!stage.namesForwarded && pair() !== acme) continue;
      const listed = await call(driver, pair(), 'GET', '/api/s2s/transactions');
      if (listed['status'] !== 200) failures.push(`list: ${JSON.stringify(listed)}`);
    }
  };
  const some = async (): Promise<void> => {
    const until = state.count + 20;
    while (state.count < until && failures.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  };

  const both = Promise.all([traffic(first, () => firstPair), traffic(second, () => secondPair)]);
  await some();
  const next = await stage.sidecar.rotate();
  await untilAccepted(stage, next);
  await some();
  secondPair = next;
  await some();
  firstPair = next;
  await some();
  await stage.sidecar.endGrace();
  await some();
  state.ending = true;
  await both;
  await Promise.all([first.close(), second.close()]);
  return failures;
}

/** Waits until the sidecar has noticed the change to its accounts file, which takes up to a second. */
async function untilAccepted(stage: Stage, pair: Pair): Promise<void> {
  const body = new Envelope(pair).sealBody('{"amount":1,"reference":"rotation-accepted"}');
  for (;;) {
    const headers = { Authorization: `Bearer ${acme.apiKey}`, ...json };
    const response = await fetch(`${stage.url}/api/s2s/charge`, { method: 'POST', headers, body });
    await response.arrayBuffer();
    if (response.status === 201) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

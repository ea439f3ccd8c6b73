import { describe, expect, test } from 'vitest';
import { hintForPlaintext } from '../../src/envelope/hints/accepted-hints.ts';
import { findCause } from '../../src/envelope/hints/diagnosis.ts';
import { openEnvelope } from '../../src/envelope/envelope.ts';
import { hintForBody, hintForHeaders } from '../../src/envelope/hints/hints.ts';
import { Refusal, findRefusal, refusals, type RefusalCode } from '../../src/errors.ts';
import { refused } from '../../src/proxy/admit/exchange.ts';
import type { Sealing } from '../../src/proxy/admit/sealing.ts';
import { GatewaySnapshot } from '../../src/proxy/admit/snapshot.ts';
import { Budgets } from '../../src/proxy/capacity/budgets.ts';
import type { ClientConnection } from '../../src/proxy/capacity/client-connection.ts';
import { Reservation } from '../../src/proxy/capacity/reservation.ts';
import { Responder } from '../../src/proxy/respond/responder.ts';
import { Upstream } from '../../src/upstream/upstream.ts';
import { accepted, bodies, ciphertexts, headers, strings } from '../envelope/slip-list.ts';
import { encrypt, iv, key } from '../envelope/slips.ts';
import { decrypted, send } from '../support/client.ts';
import { openConnection, parseResponses } from '../support/connection.ts';
import { acmeWith, startGateway } from '../support/gateway.ts';
import { startServer } from '../support/http1.ts';
import {
  acmeTest,
  codecOf,
  configOf,
  credentialsOf,
  encryptionOf,
  keys,
  route,
  targetOf,
  noMemory,
} from '../support/sidecar.ts';
import type { TestUpstream } from '../support/upstream.ts';

const codes = Object.keys(refusals) as RefusalCode[];

/** Texts with characters up to U+007F, U+00FF, U+FFFF and beyond, and characters that JSON escapes. */
const texts = [
  'plain',
  'caf\u00e9 \u00df\u00ff',
  '\u0100\u0141 \u2026 \u4eac\u672c \uffee',
  '\u{1f600}\u{1d11e}',
  'b\u2018\u2026\u2019 & "quoted" \\ \n\t\u2028\u007f',
  '\u00c3\u00a9',
];

const config = configOf('http://127.0.0.1:1', { documentation: 'https://docs.example/\u652f\u4ed8/\u00e9' });
const upstream = new Upstream(targetOf('http://127.0.0.1:1'), 1_000, () => {});
const snapshot = new GatewaySnapshot(config, new Map([['test', upstream]]));
const budgets = new Budgets(config.limits, false);
const client = {
  begin: () => new Reservation(budgets, budgets.anonymous.test),
  count() {},
  endsFor() {},
  idle() {},
} as unknown as ClientConnection;

/** The bodies, as bytes, of the responses to pipelined requests that are all refused with this hint. */
async function bodiesOf(
  code: RefusalCode,
  hint: string,
  sealing: Sealing | undefined,
  minor: 0 | 1,
): Promise<Buffer[]> {
  const { port } = await startServer({
    serve: (http) => {
      const refusal = new Refusal(code, { hint });
      const exchange = { ...refused(refusal, 'id-1'), sealing };
      new Responder(http, client, snapshot, exchange, 0, () => {}).refuse(refusal);
    },
  });
  const connection = await openConnection(port);
  connection.send(
    `GET /a HTTP/1.${minor}\r\nHost: x\r\n\r\nGET /b HTTP/1.${minor}\r\nHost: x\r\nConnection: close\r\n\r\n`,
  );
  return parseResponses(await connection.untilEnded()).map(({ body }) => Buffer.from(body, 'latin1'));
}

function documentOf(code: RefusalCode, hint: string): Buffer {
  const { title, status, detail, forwarded = 'no' } = findRefusal(code);
  const type = `https://docs.example/\u652f\u4ed8/\u00e9#${code}`;
  return Buffer.from(JSON.stringify({ type, title, status, detail, code, request_id: 'id-1', forwarded, hint }));
}

/** How many of two pipelined requests get a response. */
const answered = (code: RefusalCode, minor: 0 | 1): number =>
  findRefusal(code).closes === true || minor === 0 ? 1 : 2;

describe('every text arrives byte for byte', () => {
  test.each(codes)('in plain: %s', async (code) => {
    for (const minor of [0, 1] as const) {
      for (const hint of texts) {
        const received = await bodiesOf(code, hint, undefined, minor);
        expect(received).toEqual(Array.from({ length: answered(code, minor) }, () => documentOf(code, hint)));
      }
    }
  });

  test.each(codes.filter((code) => findRefusal(code).sealed))('sealed: %s', async (code) => {
    for (const hint of texts) {
      const sealing = { sealer: codecOf(acmeTest), inGrace: false, credentials: 'current' } as const;
      const received = await bodiesOf(code, hint, sealing, 1);
      expect(received).toHaveLength(answered(code, 1));
      for (const body of received) {
        const { data } = JSON.parse(body.toString('latin1')) as { data: string };
        expect(decrypted(acmeTest, Buffer.from(data, 'hex'))).toEqual(documentOf(code, hint));
      }
    }
  });
});

describe('the hints for the list of slips arrive as they were written', () => {
  const credentials = credentialsOf({ key, iv });
  const codec = codecOf({ key, iv });
  const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  type Row = readonly [name: string, hint: string | undefined, received: unknown];

  /** Sends each request, and collects the hints: from the document of a refusal, or from the header if the request was accepted. */
  async function ask<Slip>(
    slips: readonly Slip[],
    request: (
      slip: Slip,
    ) => Promise<readonly [name: string, line: string, headers: object, body: Buffer, hint: string | undefined]>,
  ): Promise<{ rows: Row[]; upstream: TestUpstream }> {
    const accounts = [acmeWith(encryptionOf({ key, iv }))];
    const routes = [route('/api/s2s/*', { envelope: true })];
    const { sidecar, upstream } = await startGateway({ accounts, routes });
    const rows: Row[] = [];
    for (const slip of slips) {
      const [name, line, headers, body, hint] = await request(slip);
      const response = await send(sidecar, line, { headers: { ...headers }, body });
      const { hint: received } = JSON.parse(strict.decode(response.bytes)) as { hint?: string };
      rows.push([name, hint, received ?? response.headers['envelope-hint']]);
    }
    return { rows, upstream };
  }

  const expectEqual = (rows: readonly Row[]): void => {
    expect(rows.length).toBeGreaterThan(8);
    expect(rows.map(([name, hint]) => [name, hint])).toEqual(rows.map(([name, , received]) => [name, received]));
  };
  const authorization = { Authorization: `Bearer ${keys.acme}` };
  const decrypt = 'POST /api/s2s/aes-decrypt';
  const charge = 'POST /api/s2s/charge';

  test('from aes-decrypt', async () => {
    const all = [...ciphertexts, ...strings];
    const { rows, upstream } = await ask(all, async ([name, sent]) => {
      const data = typeof sent === 'string' ? sent : sent.toString('hex');
      const body = Buffer.from(JSON.stringify({ encrypted_data: data }));
      return [name, decrypt, { key, iv }, body, findCause(data, credentials, key, iv)];
    });
    expectEqual(rows);
    // Some of the hints quote what the caller has encrypted.
    expect(rows.some(([, hint = '']) => /[^\0-\xff]/.test(hint))).toBe(true);
    expect(upstream.heads()).toBe(0);
  });

  test('for envelopes and for whole bodies', async () => {
    const all = [
      ...strings.map(([name, data]) => [name, JSON.stringify({ data })] as const),
      ...bodies.map(([name, body]) => [name, body] as const),
    ];
    const { rows, upstream } = await ask(all, async ([name, sent]) => {
      const body = Buffer.from(sent as string);
      const result = await openEnvelope(body, [codec], noMemory);
      return [name, charge, authorization, body, 'code' in result ? hintForBody(body, result.code, codec) : undefined];
    });
    expectEqual(rows);
    expect(upstream.heads()).toBe(0);
  });

  test('for the headers of the test endpoints', async () => {
    const { rows, upstream } = await ask(headers, async ([name, sentKey, sentIv]) => {
      // Each character of a header's value is sent as one byte.
      const wire = (text: string): string => Buffer.from(text).toString('latin1');
      const hint = hintForHeaders(sentKey, sentIv);
      return [name, 'POST /api/s2s/aes-encrypt', { key: wire(sentKey), iv: wire(sentIv) }, Buffer.from('{}'), hint];
    });
    expectEqual(rows.filter(([, hint]) => hint !== undefined));
    expect(upstream.heads()).toBe(0);
  });

  test('for what is accepted, in a header', async () => {
    const { rows, upstream } = await ask(accepted, async ([name, plaintext]) => {
      const body = Buffer.from(JSON.stringify({ data: encrypt(plaintext).toString('hex') }));
      return [name, charge, authorization, body, hintForPlaintext(Buffer.from(plaintext))];
    });
    expectEqual(rows);
    expect(upstream.heads()).toBe(accepted.length);
  });
});

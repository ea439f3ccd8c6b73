import type { Socket } from 'node:net';
import { sealedBy } from '../load/cipher.ts';
import {
  attackedHost,
  head,
  shopCredentials,
  visitorsKey,
  visitorsTestKey,
  write,
  type Attack,
  type Target,
} from './attack.ts';

const merchants = { listener: 'merchants', pause: 200 } as const;

/** The share of `limits.buffered` that public keys may use. */
const publicPart = 1 / 2;

/**
 * The largest bodies of open brackets, for which a reader that builds values needs a hundred times their size. They are sent instead of an
 * envelope, instead of `data`, and as plaintext. They are sent in live and also in test, where the code for hints reads them again.
 */
export function jsonWork({ limits: { requestBody, buffered } }: Target): readonly Attack[] {
  const ask = (
    host: string,
    key: string,
    credentials: (typeof shopCredentials)['test' | 'live'],
  ): readonly string[] => {
    const fields = [`Host: ${host}`, `Authorization: Bearer ${key}`];
    // Hex makes the plaintext twice as long.
    const depth = requestBody / 2 - 64;
    const bodies = [
      '['.repeat(requestBody),
      `{"data":${'['.repeat(requestBody - 8)}`,
      `{"a":`.repeat(requestBody / 5),
      sealedBy(credentials, '['.repeat(depth)),
      sealedBy(credentials, `${'['.repeat(depth / 2)}${']'.repeat(depth / 2)}`),
    ];
    return bodies.map((body) => head('POST /shop/json', ...fields, `Content-Length: ${body.length}`) + body);
  };
  const live = ask(attackedHost, visitorsKey, shopCredentials.live);
  // The last body is left out, because it would be forwarded, and the sandbox's core belongs to the merchants.
  const test = ask('127.0.0.1', visitorsTestKey, shopCredentials.test).slice(0, -1);
  const [sealed = ''] = live.slice(3);
  // The other attacks need room, too.
  const held = Math.max(1, Math.floor((buffered * publicPart) / requestBody / 4));
  return [
    { ...merchants, name: 'brackets in live', sockets: 4, begin: inTurn(live), next: inTurn(live) },
    { ...merchants, name: 'brackets in test', sockets: 2, begin: inTurn(test), next: inTurn(test) },
    { ...merchants, name: 'envelopes that lack a byte', sockets: held, begin: write(sealed.slice(0, -1)) },
  ];
}

/** Sends these strings one after another. */
function inTurn(texts: readonly string[]): (socket: Socket) => void {
  let turn = 0;
  return (socket) => {
    turn += 1;
    write(texts[turn % texts.length] ?? '')(socket);
  };
}

import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib';
import { attackedHost, head, otherVisitorsKeys, visitorsKey, write, type Attack, type Target } from './attack.ts';

/** Milliseconds between two pieces of a compressed response. */
const interval = 200;

/** Milliseconds before a refused client retries. */
const pause = 200;

/** Text that fills the window of any decoder, which is 32 KiB for gzip and 16 MiB for brotli. */
const text = Buffer.from(
  Array.from({ length: 400_000 }, (_, i) => `${i * 7_919} `)
    .join('')
    .repeat(6),
);

const codings = {
  gzip: gzipSync(text),
  deflate: deflateSync(text),
  br: brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_LGWIN]: 24 } }),
} as const;

type Coding = keyof typeof codings;

/** Requests enveloped responses. The core compresses these, although the sidecar accepts only `identity`. */
export function compressedResponses({ limits: { inFlight } }: Target): readonly Attack[] {
  return [visitorsKey, ...otherVisitorsKeys].flatMap((key) =>
    Object.keys(codings).map((coding) => {
      const path = `/shop/compressed/${coding}`;
      const ask = write(head(`GET ${path}`, `Host: ${attackedHost}`, `Authorization: Bearer ${key}`));
      const name = `responses in ${coding} that do not end`;
      const again = (socket: Socket): void => void setTimeout(ask, pause, socket);
      // Brotli could do the most harm, so the other codings leave room for it.
      const part = coding === 'br' ? 1 / 8 : 1 / 64;
      return { listener: 'merchants', name, sockets: Math.ceil(inFlight * part), pause, begin: ask, next: again };
    }),
  );
}

/** Responds as the core. @returns false if the path does not belong to this attack */
export function respondCompressed(url: string | undefined, res: ServerResponse): boolean {
  const coding = /^\/shop\/compressed\/(.+)$/.exec(url ?? '')?.[1];
  if (coding === undefined || !(coding in codings)) return false;
  const whole = codings[coding as Coding];
  res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Encoding': coding });
  // Sends nearly everything at once, so that the decoder fills its window. The end is never sent.
  res.write(whole.subarray(0, -1_000));
  let at = whole.length - 1_000;
  const trickle = setInterval(() => {
    at += 1;
    if (at < whole.length - 1) res.write(whole.subarray(at - 1, at));
  }, interval);
  res.once('close', () => clearInterval(trickle));
  return true;
}

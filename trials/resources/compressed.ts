import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib';
import { attackedHost, head, otherVisitorsKeys, visitorsKey, write, type Attack, type Target } from './attack.ts';

/** Milliseconds between two pieces of a compressed response. */
const interval = 200;

/** Milliseconds before a refused client asks again. */
const pause = 200;

/** Text that fills the window of any decoder: of gzip 32 KiB, of brotli 16 MiB. */
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

/** Asks for enveloped responses, which the core compresses although the sidecar accepts `identity` alone. */
export function compressedResponses({ limits: { inFlight } }: Target): readonly Attack[] {
  return [visitorsKey, ...otherVisitorsKeys].flatMap((key) =>
    Object.keys(codings).map((coding) => {
      const path = `/shop/compressed/${coding}`;
      const ask = write(head(`GET ${path}`, `Host: ${attackedHost}`, `Authorization: Bearer ${key}`));
      const name = `responses in ${coding} that do not end`;
      const again = (socket: Socket): void => void setTimeout(ask, pause, socket);
      // Brotli could do most harm: the others leave it room.
      const part = coding === 'br' ? 1 / 8 : 1 / 64;
      return { listener: 'merchants', name, sockets: Math.ceil(inFlight * part), pause, begin: ask, next: again };
    }),
  );
}

/** The core's part. @returns false if the path is another one */
export function respondCompressed(url: string | undefined, res: ServerResponse): boolean {
  const coding = /^\/shop\/compressed\/(.+)$/.exec(url ?? '')?.[1];
  if (coding === undefined || !(coding in codings)) return false;
  const whole = codings[coding as Coding];
  res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Encoding': coding });
  // Nearly all at once, so that the decoder has filled its window; the end never comes.
  res.write(whole.subarray(0, -1_000));
  let at = whole.length - 1_000;
  const trickle = setInterval(() => {
    at += 1;
    if (at < whole.length - 1) res.write(whole.subarray(at - 1, at));
  }, interval);
  res.once('close', () => clearInterval(trickle));
  return true;
}

import { isNamed, lengthForm } from './grammar.ts';

/** How the length of a body in bytes is stated. `none`: no body follows, even if a length of 0 is stated. */
export type BodyFraming =
  | { readonly type: 'none'; readonly length: 0 | undefined }
  | { readonly type: 'sized'; readonly length: number }
  | { readonly type: 'chunked'; readonly length: undefined };

export const unstated: BodyFraming = { type: 'none', length: undefined };
const empty: BodyFraming = { type: 'none', length: 0 };
const chunked: BodyFraming = { type: 'chunked', length: undefined };

/**
 * The framing that a head states.
 *
 * @returns `malformed` if the length is faulty, or stated besides another framing; `ambiguous` if readers differ on the coding
 */
export function readFraming(fields: readonly string[], minor: 0 | 1): BodyFraming | 'malformed' | 'ambiguous' {
  let framing = unstated;
  let isAmbiguous = false;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string;
    const value = fields[i + 1] as string;
    if (isNamed(name, 'content-length')) {
      if (framing !== unstated || !lengthForm.test(value)) return 'malformed';
      const length = Number(value);
      framing = length === 0 ? empty : { type: 'sized', length };
    } else if (isNamed(name, 'transfer-encoding')) {
      if (framing !== unstated && framing !== chunked) return 'malformed';
      // Codings other than chunked, one stated twice, and chunks in HTTP/1.0 (RFC 9112 §6.1).
      isAmbiguous ||= framing === chunked || minor === 0 || value.toLowerCase() !== 'chunked';
      framing = chunked;
    }
  }
  return isAmbiguous ? 'ambiguous' : framing;
}

const keepAliveForm = /(?:^|,)[ \t]*keep-alive[ \t]*(?:,|$)/i;

/** Whether the sender lets the connection carry another message. */
export function keepsAlive(fields: readonly string[], minor: 0 | 1): boolean {
  let keepAlive = minor === 1;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    if (!isNamed(fields[i] as string, 'connection')) continue;
    const value = fields[i + 1] as string;
    // In doubt the connection ends: what another reader might take for `close` is one.
    if (/\bclose\b/i.test(value)) return false;
    if (keepAliveForm.test(value)) keepAlive = true;
  }
  return keepAlive;
}

import type { EnvelopeOpener, OpenReason } from './codec.ts';
import { looksLikeCiphertext } from './formats.ts';
import { isJson } from './json.ts';
import { soleData } from './sole-member.ts';

/** The plaintext byte for byte, and the opener that opened it. */
export interface Opened<Opener extends EnvelopeOpener> {
  readonly plaintext: Buffer;
  readonly openedBy: Opener;
}

export interface OpenFailure {
  readonly code: 'envelope_required' | 'envelope_malformed' | 'decryption_failed';
  /** Present with `decryption_failed`. Not for the caller. */
  readonly reason?: OpenReason;
}

/** In the order of the checks. */
const reasons: readonly OpenReason[] = ['encoding', 'length', 'padding', 'not_json'];

/**
 * Opens the envelope in `body` with the first of `openers` that fits: the current credentials, then those that a grace
 * accepts. If none fits, `reason` is the latest check that one of them failed.
 */
export function openEnvelope<Opener extends EnvelopeOpener>(
  body: Buffer,
  openers: readonly Opener[],
): Opened<Opener> | OpenFailure {
  // Latin-1 is the cheapest decoding. Wrong characters outside ASCII do not matter: a string that decodes to a ciphertext has
  // none, and `whyNoCiphertext` decodes all others correctly.
  const data = soleData(body.toString('latin1'));
  if (data === undefined) return whyNoCiphertext(body);
  let furthest = 0;
  for (const openedBy of openers) {
    const opened = openedBy.open(data);
    if (typeof opened !== 'string') return { plaintext: opened, openedBy };
    furthest = Math.max(furthest, reasons.indexOf(opened));
  }
  const reason = reasons[furthest];
  return reason === undefined || reason === 'encoding' ? whyNoCiphertext(body) : { code: 'decryption_failed', reason };
}

/** Whether `body` is an object with the sole member `data`, a string of any content: its sender meant an envelope. */
export function hasEnvelopeShape(body: Buffer): boolean {
  return isJson(body) && soleData(body.toString()) !== undefined;
}

/** Whether `body` looks like an envelope of any format. Credentials are not needed. */
export function isEnvelope(body: Buffer): boolean {
  const data = soleData(body.toString('latin1'));
  return data !== undefined && looksLikeCiphertext(data);
}

function whyNoCiphertext(body: Buffer): OpenFailure {
  if (!isJson(body)) return { code: 'envelope_malformed' };
  const text = body.toString();
  const value: unknown = JSON.parse(text);
  const hasData = typeof value === 'object' && value !== null && Object.hasOwn(value, 'data');
  if (!hasData) return { code: 'envelope_required' };
  const data = soleData(text);
  return data === undefined ? { code: 'envelope_malformed' } : { code: 'decryption_failed', reason: 'encoding' };
}

/** The bytes of a body that `beginsLikeEnvelope` checks. */
const beginning = 64;

/** A sole member `data` with more hex or base64 than short values have. */
const envelopeBeginning = /^\s*\{\s*"data"\s*:\s*"[0-9A-Za-z+/]{22}/;

/**
 * Whether a body begins like an envelope. It checks only the first 64 bytes, so it is cheap but may be wrong about a
 * body with a long text in `data`.
 */
export function beginsLikeEnvelope(body: Buffer): boolean {
  return envelopeBeginning.test(body.toString('latin1', 0, beginning));
}

import { continueWith } from '../promises.ts';
import { openReasons, type EnvelopeOpener, type OpenContext, type OpenReason } from './codec.ts';
import { looksLikeCiphertext } from './formats.ts';
import { isJsonInSlices } from './json/json.ts';
import { MemberReader } from './json/members.ts';
import { inSlices } from '../slices.ts';
import { readDataMember } from './json/sole-member.ts';

/** The plaintext byte for byte, and the opener that has opened the envelope. */
export interface OpenedEnvelope<Opener extends EnvelopeOpener> {
  readonly plaintext: Buffer;
  readonly openedBy: Opener;
}

export interface OpenFailure {
  readonly code: 'envelope_required' | 'envelope_malformed' | 'decryption_failed';
  /** Set only if the code is `decryption_failed`. Must not be sent to the client. */
  readonly reason?: OpenReason;
}

/**
 * Opens the envelope in `body` with the first of `openers` that can open it. The opener for the current credentials comes first, then the
 * openers for credentials that are also accepted during a grace period. If none can open the envelope, `reason` is the failed check that
 * comes last in `openReasons`. Returns a promise for a long body, which is processed in slices (see `inSlices`).
 */
export function openEnvelope<Opener extends EnvelopeOpener>(
  body: Buffer,
  openers: readonly Opener[],
  context: OpenContext,
): OpenedEnvelope<Opener> | OpenFailure | Promise<OpenedEnvelope<Opener> | OpenFailure> {
  const data = readDataMember(body);
  return continueWith(data, (found) =>
    found === undefined ? whyNoData(body) : openData(found, openers, body, context),
  );
}

/** Tries the openers one after another. @param furthest the highest index in `openReasons` of a failed check so far */
function openData<Opener extends EnvelopeOpener>(
  data: Buffer,
  [openedBy, ...others]: readonly Opener[],
  body: Buffer,
  context: OpenContext,
  furthest = 0,
): OpenedEnvelope<Opener> | OpenFailure | Promise<OpenedEnvelope<Opener> | OpenFailure> {
  const reason = openReasons[furthest] ?? 'encoding';
  if (openedBy === undefined) {
    // The reason may be that the body contains bytes that JSON does not allow, in which case the envelope is malformed.
    return reason === 'encoding' ? whyNoCiphertext(body) : { code: 'decryption_failed', reason };
  }
  return continueWith(openedBy.open(data, context), (opened) =>
    typeof opened === 'string'
      ? openData(data, others, body, context, Math.max(furthest, openReasons.indexOf(opened)))
      : { plaintext: opened, openedBy },
  );
}

/** Whether `body` is an object whose only member is `data`, with any string as its value. If so, the sender meant to send an envelope. */
export function hasEnvelopeShape(body: Buffer): boolean | Promise<boolean> {
  return continueWith(readDataMember(body), (data) => data !== undefined && isJsonInSlices(body));
}

/** Whether `body` looks like an envelope of any format. Credentials are not needed. */
export function isEnvelope(body: Buffer): boolean | Promise<boolean> {
  return continueWith(readDataMember(body), (data) => data !== undefined && looksLikeCiphertext(data));
}

function whyNoCiphertext(body: Buffer): OpenFailure | Promise<OpenFailure> {
  return continueWith(isJsonInSlices(body), (isJson) =>
    isJson ? { code: 'decryption_failed', reason: 'encoding' } : { code: 'envelope_malformed' },
  );
}

function whyNoData(body: Buffer): OpenFailure | Promise<OpenFailure> {
  return continueWith(isJsonInSlices(body), (isJson): OpenFailure | Promise<OpenFailure> => {
    if (!isJson) return { code: 'envelope_malformed' };
    let hasData = false;
    const members = new MemberReader((name) => {
      hasData ||= name === 'data';
    });
    const read = inSlices(body.length, (from, to) => members.read(body, from, to));
    return continueWith(read, () => ({ code: hasData ? 'envelope_malformed' : 'envelope_required' }));
  });
}

/** How many bytes of a body `beginsLikeEnvelope` checks. */
const beginning = 64;

/** Matches a first member `data` that has more hex or base64 digits than a short value would. */
const envelopeBeginning = /^\s*\{\s*"data"\s*:\s*"[0-9A-Za-z+/]{22}/;

/**
 * Whether a body begins like an envelope. Only the first 64 bytes are checked, so the check is cheap but may be wrong about a body with a
 * long string in `data`.
 */
export function beginsLikeEnvelope(body: Buffer): boolean {
  return envelopeBeginning.test(body.toString('latin1', 0, beginning));
}

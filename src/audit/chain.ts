import { createPublicKey, sign, verify, type KeyObject } from 'node:crypto';

// A trail is a chain of JSON lines. Each line contains the hash of the line before it, and a signature if there is a key. Hashes and
// signatures cover the bytes of a line, never JSON that was parsed and serialized again.

/** A place in a trail. A copy that is kept elsewhere shows whether the trail was changed up to this place. */
export interface Link {
  /** The number of the line, from 1. */
  readonly position: number;
  /** SHA-256 of the line without its newline, in lower-case hex. */
  readonly hash: string;
}

/** The place before the first line. */
export const beginning: Link = { position: 0, hash: '0'.repeat(64) };

/** The members of a line that link it to the chain. */
export interface Ties {
  readonly position: number;
  /** The hash of the line before this one. */
  readonly prev: string;
  /** In base64; undefined if the line is not signed. */
  readonly sig: string | undefined;
}

/**
 * Matches a chained line. The last base64 digit of a 64-byte signature encodes only two bits, so only four digits are allowed there.
 * Otherwise, the same signature could be written in several ways.
 */
const ties =
  /^\{"position":([1-9][0-9]{0,14})(?=,).*,"prev":"([0-9a-f]{64})"(?:,"sig":"([A-Za-z0-9+/]{85}[AQgw]==)")?\}$/s;

/** The `position`, `prev` and `sig` of a line; undefined if the line is not part of a chain. */
export function readTies(line: Buffer): Ties | undefined {
  const [, position, prev, sig] = ties.exec(line.toString('latin1')) ?? [];
  return prev === undefined ? undefined : { position: Number(position), prev, sig };
}

/** Whether the signature of a line was made with this key. */
export function isSignedBy(line: Buffer, sig: string, key: KeyObject): boolean {
  const signed = Buffer.concat([line.subarray(0, -`,"sig":"${sig}"}`.length), Buffer.from('}')]);
  return verify(null, signed, key, Buffer.from(sig, 'base64'));
}

/** The public key that belongs to a private key, as in a PEM file: base64 of the DER. */
export function publicText(key: KeyObject): string {
  return createPublicKey(key).export({ type: 'spki', format: 'der' }).toString('base64');
}

/**
 * Makes the line that follows another one.
 *
 * @param members in the order in which they are written; undefined members are left out
 * @param key     an Ed25519 private key; if undefined, the line is not signed
 */
export function lineAfter(last: Link, members: object, key: KeyObject | undefined): Buffer {
  const line = Buffer.from(JSON.stringify({ position: last.position + 1, ...members, prev: last.hash }));
  if (key === undefined) return line;
  const sig = sign(null, line, key).toString('base64');
  return Buffer.concat([line.subarray(0, -1), Buffer.from(`,"sig":"${sig}"}`)]);
}

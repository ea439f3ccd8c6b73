import { createHash, createPublicKey, type KeyObject } from 'node:crypto';
import { beginning, isSignedBy, readTies, type Link, type Ties } from './chain.ts';
import { cryptography, sha256Hex } from '../cryptography.ts';
import { readMembers } from '../input/json.ts';
import type { Line } from './lines.ts';

/** The faults that an event may have, each with its usual message, as in "event 3 is changed: it is not as it was written". */
const messages = {
  changed: 'is not as it was written',
  missing: 'was removed',
  moved: 'is missing here, but is at another position',
  unsigned: 'has no signature, although events before it have one',
  unchained: 'does not belong to the chain',
};
const notTakenOver = 'and the events of the previous version that follow it are not the ones recorded in "trail_begun"';
type Fault = keyof typeof messages;

/** A fault, at the first event that has it. */
interface Problem {
  readonly position: number;
  readonly fault: Fault;
  readonly message: string;
}

export interface VerifyOptions {
  /** Ed25519 public keys, one of which must have signed the last event. If there are none, events may be unsigned. */
  readonly keys: readonly KeyObject[];
  /** Links that were kept elsewhere. Each one proves that the events up to its position have not been changed. */
  readonly anchors: readonly Link[];
}

export interface Report {
  readonly events: number;
  readonly signed: number;
  /** Empty if the trail is whole. A trail may have several problems, for example unchained events to which later events are chained. */
  readonly problems: readonly Problem[];
  /** What the trail does not prove even if it is whole, and anything else that is unusual. */
  readonly warnings: readonly string[];
}

/** A line with the position at which it was found, whatever position its ties state. */
interface PlacedLine extends Link {
  readonly bytes: Buffer;
  /** The position at which the line is stored; undefined if it is not in the trail yet. */
  readonly row: Line['position'];
  /** Undefined if the line is not part of a chain. */
  readonly ties: Ties | undefined;
}

/** Verifies a trail in constant memory, up to the first fault that ends the verification. */
export async function verifyTrail(lines: AsyncIterable<Line>, { keys, anchors }: VerifyOptions): Promise<Report> {
  /** The first problem of each kind. */
  const problems = new Map<Fault, Problem>();
  const warnings: string[] = [];
  let last: PlacedLine = { ...beginning, bytes: Buffer.alloc(0), row: undefined, ties: undefined };
  let signed = 0;
  /** The position of the last event that was signed by a key that is not among `keys`; 0 if there is none. */
  let signedByOthers = 0;
  /** The position of the last event that was carried over from the previous version; 0 if there is none. */
  let takenOver = 0;
  /** The key that must sign the next event; undefined before the first signature. */
  let key: KeyObject | undefined;
  /** The key that made the last signature. It differs from `key` if the last event announces a new key. */
  let signer: KeyObject | undefined;
  /** Counts and hashes the previous version's lines at the beginning of the trail, until a line states their number and hash. */
  const older = { events: 0, hash: createHash(cryptography.digest.algorithm) };

  const fail = (position: number, fault: Fault, message = messages[fault]): false => {
    if (!problems.has(fault)) problems.set(fault, { position, fault, message });
    return false;
  };
  const isGiven = (by?: KeyObject): boolean => keys.some((each) => by?.equals(each));
  const takeChained = ({ position, bytes }: PlacedLine, sig: string | undefined): boolean => {
    const announced = readAnnouncement(bytes);
    if (announced.isTakenOver) takenOver = position;
    if (announced.older !== undefined && older.events > 0) {
      const { events, sha256 } = announced.older;
      if (events !== older.events || sha256 !== older.hash.digest('hex')) fail(1, 'changed', notTakenOver);
      older.events = 0;
    }
    if (sig === undefined) return key === undefined || fail(position, 'unsigned');
    const by = key ?? announced.key ?? keys.find((each) => isSignedBy(bytes, sig, each));
    if (by === undefined || !isSignedBy(bytes, sig, by)) return fail(position, 'changed');
    signer = by;
    key = announced.key ?? by;
    signed += 1;
    if (!isGiven(by)) signedByOthers = position;
    return true;
  };
  /** Verifies a line, given the ties of the line after it. Returns false if a fault ends the verification. */
  const take = (line: PlacedLine, next?: Ties): boolean => {
    const { position, row, hash, ties } = line;
    const [fault, concerned = position, message] = findFault(last, line, next);
    // If a line was removed, all lines after it are at different positions, which is not reported as a separate fault.
    if (fault !== 'missing' && row !== undefined && String(row) !== String(position))
      fail(position, 'moved', `is stored at position ${row}`);
    if (fault !== undefined) return fail(concerned, fault, message);
    if (ties !== undefined) {
      if (!takeChained(line, ties.sig)) return false;
    } else if (older.events === position - 1) {
      older.hash.update(line.bytes).update('\n');
      older.events = position;
    } else fail(position, 'unchained');
    if (anchors.some((each) => each.position === position && each.hash !== hash))
      return fail(position, 'changed', 'does not match the anchor');
    last = line;
    return true;
  };
  /** Makes the checks that are possible only at the end of the trail. */
  const end = ({ position }: Link): void => {
    if (older.events > 0) fail(1, 'unchained', notTakenOver);
    const anchored = Math.max(...anchors.map((each) => each.position));
    if (anchored > position) fail(position + 1, 'missing', 'was removed: an anchor comes after the end of the trail');
    // This checks the key of the last signature, not a key that the last line announces. Such a key has not signed anything yet, and anyone
    // can announce a key.
    if (keys.length > 0 && position === 0)
      fail(1, 'missing', 'should be signed by a given key, but the trail is empty');
    else if (keys.length > 0 && !isGiven(signer))
      fail(position, 'unsigned', 'is the last one, but is not signed by a given key');
    if (problems.size > 0) return;
    // Someone without the key may have rewritten the unsigned events before a signed event was chained to them. Only an anchor reveals
    // this.
    const unsigned = position - signed;
    if (anchored > 0 && anchored < position) warnings.push(`events from ${anchored + 1} on come after the last anchor`);
    if (signed > 0 && unsigned > 0)
      warnings.push(`events 1 to ${unsigned} are not signed: compare event ${unsigned} with an anchor`);
    if (keys.length > 0 && signedByOthers > 0)
      warnings.push(
        `events up to ${signedByOthers} are signed by a key that was not given: give that key, too, or compare event ${signedByOthers} with an anchor`,
      );
    // `accounts migrate` cannot tell who wrote a row of the old table.
    if (takenOver > 0)
      warnings.push(`events up to ${takenOver} were copied from the table "audit": nothing shows who wrote them`);
  };

  let line: PlacedLine | undefined;
  let isWhole = true;
  for await (const { bytes, position: row, isTorn } of lines) {
    if (isTorn) warnings.push('the last line is incomplete, as after a crash, and was not verified');
    if (isTorn) break;
    const ties = readTies(bytes);
    isWhole = line === undefined || take(line, ties);
    if (!isWhole) break;
    line = { bytes, position: (line?.position ?? 0) + 1, row, hash: sha256Hex(bytes), ties };
  }
  if (isWhole && (line === undefined || take(line))) end(last);
  return { events: last.position, signed, problems: [...problems.values()], warnings };
}

/**
 * Finds out what is wrong with the place of a line, which often depends on the line after it. Returns the fault, the position of the faulty
 * line if it is not this one, and the message if it is not the usual one.
 */
function findFault(before: PlacedLine, line: PlacedLine, next?: Ties): readonly [Fault?, number?, string?] {
  const { position, hash, ties } = line;
  const isCovered = next?.prev === hash;
  if (ties === undefined) {
    if (next === undefined || isCovered) return [];
    if (next.prev === before.hash) return ['unchained'];
    return next.position === position + 1 ? ['changed'] : [];
  }
  const isBehind = ties.prev === before.hash;
  if (ties.position === position) {
    if (isBehind) return [];
    // This line is not chained to the previous line. If the next line is chained to this one, the previous line is the one that was
    // changed, unless the previous line is signed.
    const isSecondWhole = next === undefined || isCovered;
    return isSecondWhole && position > 1 && before.ties?.sig === undefined ? ['changed', position - 1] : ['changed'];
  }
  if (isBehind && !isCovered) return ['changed'];
  // This line and the previous line are chained to the same line and are not copies of each other. The previous line was inserted, because
  // later lines are chained to this one.
  if (ties.prev === before.ties?.prev && hash !== before.hash) return ['unchained', position - 1];
  const goesOn = next === undefined || next.position === ties.position + 1;
  if (ties.position < position || !goesOn) return ['moved'];
  return ['missing', position, `was removed: event ${ties.position} is the next one`];
}

/** What a line announces: the key that signs from the next line on, which lines were carried over, or that it was carried over itself. */
function readAnnouncement(line: Buffer): { key?: KeyObject; older?: Record<string, unknown>; isTakenOver?: true } {
  const { action, details, older } = readMembers(line.toString());
  const given = Object(details) as Readonly<Record<string, unknown>>;
  if (older !== undefined) return { isTakenOver: true };
  if (action === 'trail_begun') return { older: given };
  if (action !== 'audit_key_changed') return {};
  try {
    const key = createPublicKey({ key: Buffer.from(String(given['key']), 'base64'), type: 'spki', format: 'der' });
    return key.asymmetricKeyType === cryptography.signature.algorithm ? { key } : {};
  } catch {
    return {};
  }
}

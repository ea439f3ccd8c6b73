import { createHash, createPublicKey, type Hash, type KeyObject } from 'node:crypto';
import { beginning, hashOf, isSignedBy, tiesOf, type Link, type Ties } from './chain.ts';
import { cryptography } from '../cryptography.ts';

/** What is wrong with an event: the first part of a message about it, and the rest. */
const messages = {
  changed: 'is not as it was written',
  missing: 'was removed',
  moved: 'is missing here, and stands elsewhere',
  unsigned: 'has no signature, and events before it have one',
  unchained: 'does not belong to the chain',
};
type Fault = keyof typeof messages;

/** The first event that is concerned. */
export interface Problem {
  readonly position: number;
  readonly fault: Fault;
  readonly message: string;
}

export interface VerifyOptions {
  /** Ed25519 public keys, one of which must have signed the last event. Empty: events may be unsigned. */
  readonly keys: readonly KeyObject[];
  /** Hashes by position, kept elsewhere. */
  readonly anchors: ReadonlyMap<number, string>;
}

export interface Report {
  readonly events: number;
  readonly signed: number;
  /** The last event that a key has signed which is not among the given ones; 0 if there is none. */
  readonly signedByOthers: number;
  /** The last event of the version before that was taken over behind events of this version; 0 if there is none. */
  readonly takenOverLater: number;
  /** Empty: the trail is whole. Several only if some events are not chained, but covered by those behind them. */
  readonly problems: readonly Problem[];
}

/** A line where it stands, whatever its ties say. */
interface Line extends Link {
  readonly bytes: Buffer;
  /** Undefined: the line is of no chain. */
  readonly ties: Ties | undefined;
}

/** Verifies a trail in constant memory, up to the first event that something is wrong with. */
export async function verifyTrail(lines: AsyncIterable<Buffer>, options: VerifyOptions): Promise<Report> {
  const trail = new Verification(options);
  let line: Line | undefined;
  for await (const bytes of lines) {
    const next = { bytes, position: (line?.position ?? 0) + 1, hash: hashOf(bytes), ties: tiesOf(bytes) };
    if (line !== undefined && !trail.take(line, next.ties)) return trail.report;
    line = next;
  }
  if (line === undefined || trail.take(line, undefined)) trail.end();
  return trail.report;
}

class Verification {
  readonly #options: VerifyOptions;
  /** The first one of each kind. */
  readonly #problems = new Map<Fault, Problem>();
  #last: Before = beginning;
  #signed = 0;
  #signedByOthers = 0;
  #takenOverLater = 0;
  /** Whether an event of this version was taken, other than the one that the first signature of what is taken over needs. */
  #isBegun = false;
  /** The key that signs from here on; undefined before the first signature. */
  #key: KeyObject | undefined;
  /** The key that made the last signature, which may be an older one than signs from here on. */
  #signer: KeyObject | undefined;
  /** The lines of the version before at the beginning; undefined once they were compared with what was taken over. */
  #older: { readonly events: number; readonly hash: Hash } | undefined = {
    events: 0,
    hash: createHash(cryptography.digest.algorithm),
  };

  constructor(options: VerifyOptions) {
    this.#options = options;
  }

  get report(): Report {
    return {
      events: this.#last.position,
      signed: this.#signed,
      signedByOthers: this.#signedByOthers,
      takenOverLater: this.#takenOverLater,
      problems: [...this.#problems.values()],
    };
  }

  /** Takes a line, with a look at the one behind it; false if a fault ends the verification. */
  take(line: Line, next: Ties | undefined): boolean {
    const { position, hash, ties } = line;
    const [fault, concerned = position] = faultOf(this.#last, line, next);
    if (fault !== undefined) return this.#fail(concerned, fault);
    if (ties === undefined) this.#takeUnchained(line);
    else if (!this.#takeChained(line, ties.sig)) return false;
    const anchor = this.#options.anchors.get(position);
    if (anchor !== undefined && anchor !== hash) return this.#fail(position, 'changed', 'is not that of the anchor');
    this.#last = line;
    return true;
  }

  /** Checks what only the end tells. */
  end(): void {
    const { position } = this.#last;
    const { keys, anchors } = this.#options;
    if (this.#older !== undefined && this.#older.events > 0) this.#fail(1, 'unchained', notTakenOver);
    if (Math.max(0, ...anchors.keys()) > position)
      this.#fail(position + 1, 'missing', 'was removed: an anchor is behind it');
    // A key that the last line only names has signed nothing: anyone can name it.
    const isTrusted = this.#signer !== undefined && this.#isGiven(this.#signer);
    if (keys.length > 0 && position > 0 && !isTrusted)
      this.#fail(position, 'unsigned', 'is the last one and not signed by a given key');
  }

  #isGiven(key: KeyObject): boolean {
    return this.#options.keys.some((each) => each.equals(key));
  }

  #takeUnchained({ position, bytes }: Line): void {
    if (this.#older?.events === position - 1)
      this.#older = { events: position, hash: this.#older.hash.update(bytes).update('\n') };
    else this.#fail(position, 'unchained');
  }

  #takeChained({ position, bytes }: Line, sig: string | undefined): boolean {
    const announced = announcementOf(bytes);
    if (announced.isTakenOver && this.#isBegun) this.#takenOverLater = position;
    this.#isBegun ||= !announced.isTakenOver && announced.key === undefined;
    if (announced.older !== undefined && this.#older !== undefined && this.#older.events > 0) {
      const sha256 = this.#older.hash.digest('hex');
      const isSame = announced.older['events'] === this.#older.events && announced.older['sha256'] === sha256;
      if (!isSame) this.#fail(1, 'changed', notTakenOver);
      this.#older = undefined;
    }
    if (sig === undefined) return this.#key === undefined || this.#fail(position, 'unsigned');
    const key = this.#key ?? announced.key ?? this.#options.keys.find((each) => isSignedBy(bytes, sig, each));
    if (key === undefined || !isSignedBy(bytes, sig, key)) return this.#fail(position, 'changed');
    this.#signer = key;
    this.#key = announced.key ?? key;
    this.#signed += 1;
    if (!this.#isGiven(key)) this.#signedByOthers = position;
    return true;
  }

  #fail(position: number, fault: Fault, message = messages[fault]): false {
    if (!this.#problems.has(fault)) this.#problems.set(fault, { position, fault, message });
    return false;
  }
}

const notTakenOver = 'and those behind it, of the version before, are not those that were taken over';

/** A line that was verified, or the beginning. */
type Before = Link & { readonly ties?: Ties | undefined };

/** What is wrong with the place of a line, and the position of another line that it is wrong with. Only what stands behind it tells. */
function faultOf(before: Before, line: Line, next: Ties | undefined): readonly [] | readonly [Fault, number?] {
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
    // Two lines do not fit: the first was changed if the second still fits to the next, unless the first is signed.
    const isSecondWhole = next === undefined || isCovered;
    return isSecondWhole && position > 1 && before.ties?.sig === undefined ? ['changed', position - 1] : ['changed'];
  }
  if (isBehind && !isCovered) return ['changed'];
  // Both follow the same line, and are not copies: the one before was inserted, because others are chained to this one.
  if (ties.prev === before.ties?.prev && hash !== before.hash) return ['unchained', position - 1];
  const goesOn = next === undefined || next.position === ties.position + 1;
  return [ties.position > position && goesOn ? 'missing' : 'moved'];
}

/** What a line announces. */
interface Announcement {
  /** The key that signs from the next line on. */
  readonly key?: KeyObject;
  /** The number and the hash of the lines of the version before. */
  readonly older?: Record<string, unknown>;
  /** Whether the line itself is one of the version before. */
  readonly isTakenOver?: boolean;
}

function announcementOf(line: Buffer): Announcement {
  try {
    const { action, details, older } = JSON.parse(line.toString()) as {
      action: unknown;
      details: Record<string, unknown>;
      older: unknown;
    };
    if (older !== undefined) return { isTakenOver: true };
    if (action === 'trail_begun') return { older: { ...details } };
    if (action !== 'audit_key_changed') return {};
    const key = Buffer.from(String(details['key']), 'base64');
    return { key: createPublicKey({ key, type: 'spki', format: 'der' }) };
  } catch {
    return {};
  }
}

import { createHash, createPublicKey, type KeyObject } from 'node:crypto';
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
  /** Empty: the trail is whole. Several only if some events are not chained, but covered by those behind them. */
  readonly problems: readonly Problem[];
}

interface Line extends Link {
  readonly bytes: Buffer;
  readonly ties: Ties | undefined;
  readonly action: unknown;
  readonly details: Readonly<Record<string, unknown>>;
}

/** Verifies a trail in constant memory, up to the first event that something is wrong with. */
export async function verifyTrail(lines: AsyncIterable<Buffer>, options: VerifyOptions): Promise<Report> {
  const chain = new Chain(options);
  let line: Line | undefined;
  for await (const bytes of lines) {
    const next = readLine(bytes, (line?.position ?? 0) + 1);
    if (line !== undefined && !chain.take(line, next)) return chain.report;
    line = next;
  }
  if (line === undefined || chain.take(line, undefined)) chain.end();
  return chain.report;
}

class Chain {
  readonly #options: VerifyOptions;
  readonly #problems: Problem[] = [];
  #last: Link & { readonly ties?: Ties | undefined } = beginning;
  #signed = 0;
  /** The key that signs from here on; undefined before the first signature. */
  #key: KeyObject | undefined;
  /** The key that made the last signature, which may be an older one than signs from here on. */
  #signer: KeyObject | undefined;
  /** Over the lines of the version before at the beginning; undefined once the chain has begun. */
  #older: ReturnType<typeof createHash> | undefined = createHash(cryptography.digest.algorithm);

  constructor(options: VerifyOptions) {
    this.#options = options;
  }

  get report(): Report {
    return { events: this.#last.position, signed: this.#signed, problems: this.#problems };
  }

  /** Takes a line, with a look at the one behind it; false if a fault ends the verification. */
  take(line: Line, next: Line | undefined): boolean {
    const { position, hash, ties } = line;
    if (!(ties === undefined ? this.#takeUnchained(line, next?.ties) : this.#takeChained(line, ties, next)))
      return false;
    const anchor = this.#options.anchors.get(position);
    if (anchor !== undefined && anchor !== hash) return this.#fail(position, 'changed', 'is not that of the anchor');
    this.#last = line;
    return true;
  }

  /** Checks what only the end tells. */
  end(): void {
    const { position } = this.#last;
    if (this.#older !== undefined && position > 0) this.#note(1, 'unchained', notTakenOver);
    const { keys, anchors } = this.#options;
    if (Math.max(0, ...anchors.keys()) > position)
      this.#fail(position + 1, 'missing', 'was removed: an anchor is behind it');
    // A key that the last line only names has signed nothing: anyone can name it.
    const isTrusted = keys.some((key) => this.#signer?.equals(key));
    if (keys.length > 0 && position > 0 && !isTrusted)
      this.#fail(position, 'unsigned', 'is the last one and not signed by a given key');
  }

  /** A line that is of no chain may be covered by the one behind it, inserted, or a damaged one. */
  #takeUnchained({ position, hash, bytes }: Line, next: Ties | undefined): boolean {
    if (next !== undefined && next.prev !== hash) {
      if (next.prev === this.#last.hash) return this.#fail(position, 'unchained');
      if (next.position === position + 1) return this.#fail(position, 'changed');
    }
    if (this.#older === undefined) this.#note(position, 'unchained');
    else this.#older.update(bytes).update('\n');
    return true;
  }

  #takeChained(line: Line, ties: Ties, next: Line | undefined): boolean {
    const { position } = line;
    const { hash: before, position: lastPosition, ties: lastTies } = this.#last;
    const isNextWhole = next?.ties === undefined || next.ties.prev === line.hash;
    if (ties.position !== position) {
      const isOlderMissing = this.#older !== undefined && position > 1;
      if (ties.prev === before && !isOlderMissing) return this.#fail(position, 'changed');
      const isCopy = line.hash === before;
      // Both follow the same line: the one that is chained to is the original.
      const isInserted = ties.position === lastPosition && ties.prev === lastTies?.prev && !isCopy;
      if (isInserted) return this.#fail(lastPosition, 'unchained');
      const goesOn = next?.ties === undefined || next.ties.position === ties.position + 1;
      return this.#fail(position, ties.position > position && goesOn ? 'missing' : 'moved');
    }
    if (ties.prev !== before) {
      // If the line behind it is chained to this one, it was the last one that was changed, unless its signature was good.
      const isLastChanged = isNextWhole && this.#signer === undefined && position > 1;
      return this.#fail(isLastChanged ? position - 1 : position, 'changed');
    }
    this.#takeOver(line, next);
    return this.#takeSignature(line, ties.sig);
  }

  /** Compares the lines of the version before with what the first chained line has of them. */
  #takeOver(line: Line, next: Line | undefined): void {
    const sha256 = this.#older?.digest('hex');
    this.#older = undefined;
    if (sha256 === undefined || line.position === 1) return;
    // A key that was set with the upgrade is announced before what was there is taken over.
    const { action, details } = line.action === 'audit_key_changed' && next !== undefined ? next : line;
    if (action !== 'trail_begun') this.#note(1, 'unchained', notTakenOver);
    else if (details['events'] !== line.position - 1 || details['sha256'] !== sha256)
      this.#note(1, 'changed', notTakenOver);
  }

  #takeSignature(line: Line, sig: string | undefined): boolean {
    if (sig === undefined) return this.#key === undefined || this.#fail(line.position, 'unsigned');
    const announced = announcedKey(line);
    const key = this.#key ?? announced ?? this.#options.keys.find((each) => isSignedBy(line.bytes, sig, each));
    if (key === undefined || !isSignedBy(line.bytes, sig, key)) return this.#fail(line.position, 'changed');
    this.#signer = key;
    this.#key = announced ?? key;
    this.#signed += 1;
    return true;
  }

  #fail(position: number, fault: Fault, message?: string): false {
    this.#note(position, fault, message);
    return false;
  }

  /** Notes the first problem of each kind. */
  #note(position: number, fault: Fault, message = messages[fault]): void {
    if (!this.#problems.some((known) => known.fault === fault)) this.#problems.push({ position, fault, message });
  }
}

const notTakenOver = 'and those behind it, of the version before, are not those that were taken over';

/** The public key that signs from the next line on; undefined if this is not such an event. */
function announcedKey({ action, details }: Line): KeyObject | undefined {
  if (action !== 'audit_key_changed') return undefined;
  try {
    return createPublicKey({ key: Buffer.from(String(details['key']), 'base64'), type: 'spki', format: 'der' });
  } catch {
    return undefined;
  }
}

function readLine(bytes: Buffer, position: number): Line {
  const line = { bytes, position, hash: hashOf(bytes), ties: tiesOf(bytes) };
  try {
    const { action, details } = JSON.parse(bytes.toString()) as Record<string, unknown>;
    return { ...line, action, details: Object(details) as Line['details'] };
  } catch {
    return { ...line, action: undefined, details: {} };
  }
}

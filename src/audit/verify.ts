import { createHash, createPublicKey, type KeyObject } from 'node:crypto';
import { beginning, hashOf, isSignedBy, tiesOf, type Link, type Ties } from './chain.ts';
import { cryptography } from '../cryptography.ts';

/** What is wrong with an event. */
type Fault = 'changed' | 'missing' | 'moved' | 'unsigned' | 'unchained';

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

interface Line {
  readonly bytes: Buffer;
  readonly hash: string;
  readonly ties: Ties | undefined;
}

/** Verifies a trail in constant memory, up to the first event that something is wrong with. */
export async function verifyTrail(lines: AsyncIterable<Buffer>, options: VerifyOptions): Promise<Report> {
  const chain = new Chain(options);
  const window: Line[] = [];
  for await (const bytes of lines) {
    window.push({ bytes, hash: hashOf(bytes), ties: tiesOf(bytes) });
    if (window.length < 3) continue;
    if (!chain.take(window)) return chain.report;
    window.shift();
  }
  while (window.length > 0) {
    if (!chain.take(window)) return chain.report;
    window.shift();
  }
  chain.end();
  return chain.report;
}

class Chain {
  readonly #options: VerifyOptions;
  readonly #problems: Problem[] = [];
  #last: Link = beginning;
  #signed = 0;
  /** The key that signs from here on; undefined before the first signature. */
  #key: KeyObject | undefined;
  /** The key that signed the last line; undefined if it is not signed. */
  #signer: KeyObject | undefined;
  /** Over the lines of the version before at the beginning; undefined once the chain has begun. */
  #older: ReturnType<typeof createHash> | undefined = createHash(cryptography.digest.algorithm);

  constructor(options: VerifyOptions) {
    this.#options = options;
  }

  get report(): Report {
    return { events: this.#last.position, signed: this.#signed, problems: this.#problems };
  }

  /** Takes the first of up to three lines; false if a fault ends the verification. */
  take([line, next, third]: readonly Line[]): boolean {
    if (line === undefined) return true;
    const position = this.#last.position + 1;
    if (line.ties === undefined) {
      if (next?.ties !== undefined && next.ties.prev !== line.hash) {
        if (next.ties.prev === this.#last.hash) return this.#fail(position, 'unchained');
        if (next.ties.position === position + 1) return this.#fail(position, 'changed');
      }
      if (this.#older === undefined) this.#note(position, 'unchained', messages.unchained);
      else this.#older.update(line.bytes).update('\n');
    } else {
      const fault = this.#faultOf(line, line.ties, position, next, third);
      if (fault !== undefined) return this.#fail(position, fault);
    }
    const anchor = this.#options.anchors.get(position);
    if (anchor !== undefined && anchor !== line.hash)
      return this.#fail(position, 'changed', 'is not that of the anchor');
    if (line.ties?.sig === undefined) this.#signer = undefined;
    this.#last = { position, hash: line.hash };
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
    const isUnsigned = keys.length > 0 && position > 0 && !isTrusted;
    if (isUnsigned && this.#problems.length === 0)
      this.#fail(position, 'unsigned', 'is the last one and not signed by a given key');
  }

  #faultOf(
    line: Line,
    ties: Ties,
    position: number,
    next: Line | undefined,
    third: Line | undefined,
  ): Fault | undefined {
    const before = this.#last.hash;
    if (ties.position !== position) {
      const isOlderMissing = this.#older !== undefined && position > 1;
      if (ties.prev === before && !isOlderMissing) return 'changed';
      const goesOn = next?.ties === undefined || next.ties.position === ties.position + 1;
      return ties.position > position && goesOn ? 'missing' : 'moved';
    }
    if (ties.prev !== before) return 'changed';
    if (this.#older !== undefined) {
      const olderHash = this.#older.digest('hex');
      this.#older = undefined;
      if (position > 1) {
        const first = contentOf(line);
        // A key that was set with the upgrade is announced before what was there is taken over.
        const isBehindKey = first.action === 'audit_key_changed' && next !== undefined;
        const { action, details } = isBehindKey ? contentOf(next) : first;
        if (action !== 'trail_begun' || details['events'] !== position - 1 || details['sha256'] !== olderHash) {
          this.#note(1, action === 'trail_begun' ? 'changed' : 'unchained', notTakenOver);
        }
      }
    }
    const fault = this.#signatureFault(line, ties.sig);
    if (fault !== undefined || ties.sig !== undefined || next?.ties === undefined) return fault;
    if (next.ties.prev === line.hash) return undefined;
    // Without signatures, the line behind tells which of two is as it was written.
    const isInserted = next.ties.position === position && next.ties.prev === before && next.hash !== line.hash;
    if (isInserted) return 'unchained';
    const nextIsWhole = third?.ties === undefined || third.ties.prev === next.hash;
    return next.ties.position === position + 1 && nextIsWhole ? 'changed' : undefined;
  }

  #signatureFault(line: Line, sig: string | undefined): Fault | undefined {
    if (sig === undefined) return this.#key === undefined ? undefined : 'unsigned';
    const announced = announcedKey(line);
    const key = this.#key ?? announced ?? this.#options.keys.find((each) => isSignedBy(line.bytes, sig, each));
    if (key === undefined || !isSignedBy(line.bytes, sig, key)) return 'changed';
    this.#signer = key;
    this.#key = announced ?? key;
    this.#signed += 1;
    return undefined;
  }

  #fail(position: number, fault: Fault, message = messages[fault]): false {
    this.#note(position, fault, message);
    return false;
  }

  /** Notes the first problem of each kind. */
  #note(position: number, fault: Fault, message: string): void {
    if (!this.#problems.some((known) => known.fault === fault)) this.#problems.push({ position, fault, message });
  }
}

const notTakenOver = 'and those behind it, of the version before, are not those that were taken over';

const messages: Readonly<Record<Fault, string>> = {
  changed: 'is not as it was written',
  missing: 'was removed',
  moved: 'is missing here, and stands elsewhere',
  unsigned: 'has no signature, and events before it have one',
  unchained: 'does not belong to the chain',
};

/** The public key that signs from the next line on; undefined if this is not such an event. */
function announcedKey(line: Line): KeyObject | undefined {
  const { action, details } = contentOf(line);
  const key = details['key'];
  if (action !== 'audit_key_changed' || typeof key !== 'string') return undefined;
  try {
    return createPublicKey({ key: Buffer.from(key, 'base64'), type: 'spki', format: 'der' });
  } catch {
    return undefined;
  }
}

interface Content {
  readonly action?: unknown;
  readonly details: Readonly<Record<string, unknown>>;
}

/** The action and the details of the few events that the chain itself depends on. */
function contentOf({ bytes }: Line): Content {
  const isOfChain = bytes.includes('"action":"audit_key_changed"') || bytes.includes('"action":"trail_begun"');
  try {
    const { action, details } = isOfChain ? (JSON.parse(bytes.toString()) as Content) : { details: undefined };
    return { action, details: Object(details) as Content['details'] };
  } catch {
    return { details: {} };
  }
}

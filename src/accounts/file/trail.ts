import {
  closeSync,
  constants,
  createReadStream,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { beginning, hashOf, tiesOf } from '../../audit/chain.ts';
import { linesFromEnd, linesOf } from '../../audit/lines.ts';
import { displayName } from '../../yaml/files.ts';
import { AccountsError } from '../accounts-error.ts';
import { chainEvents, type TrailEnd, type TrailOptions } from '../chained-events.ts';
import type { AppendedEvent, AuditEvent, TrailState } from '../store.ts';
import { copyRights, syncFolder } from './replace.ts';

/**
 * The audit trail of an accounts' file, in an append-only file next to it. The caller holds the lock of the accounts'
 * file while it appends.
 */
export class Trail {
  readonly #path: string;
  readonly #model: string;
  readonly #options: TrailOptions;

  /** @param accounts the path of the accounts' file, not of a symbolic link to it */
  constructor(accounts: string, options: TrailOptions = {}) {
    this.#model = accounts;
    this.#path = join(dirname(accounts), `${basename(accounts).replace(/\.ya?ml$/, '')}.audit.jsonl`);
    this.#options = options;
  }

  /** As messages have it. */
  get name(): string {
    return displayName(this.#path);
  }

  /**
   * Adds events, which are on the disk when it returns. An event is written before its change: a crash may leave an
   * event without its change, but no change without its event.
   *
   * @throws AccountsError `store_invalid` if the path is not a regular file, `audit_key_missing`; the file system's error,
   *   with nothing added
   */
  append(events: readonly AuditEvent[]): readonly AppendedEvent[] {
    const [first] = events;
    if (first === undefined) return [];
    const file = this.#open();
    try {
      this.#setTornLineAside(file);
      const end = endOf(file);
      const begun = end.chained === undefined && end.position > 0 ? [this.#begin(first, end.position)] : [];
      const chained = [...chainEvents(end, [...begun, ...events], this.#options)];
      const { size } = fstatSync(file);
      try {
        // `writeSync` would return after a part if the disk is almost full.
        writeFileSync(file, chained.map(({ line }) => `${line.toString()}\n`).join(''));
        fsyncSync(file);
        if (size === 0) syncFolder(dirname(this.#path));
      } catch (error) {
        ftruncateSync(file, size);
        fsyncSync(file);
        throw error;
      }
      return chained.map(({ appended }) => appended);
    } finally {
      closeSync(file);
    }
  }

  /** Adds that the change of these events was not made. If that fails too, they stay as after a crash. */
  appendFailure(appended: readonly AppendedEvent[]): void {
    const [first] = appended;
    if (first === undefined) return;
    const details = { first: first.position, events: appended.length };
    try {
      this.append([{ ...first, action: 'change_failed', account: undefined, details }]);
    } catch {
      // The caller throws the error of the change.
    }
  }

  /** The lines, without newlines. @param torn called if the last one is incomplete, and left out */
  async *lines(torn: () => void): AsyncIterable<Buffer> {
    if (this.#isThere()) yield* linesOf(createReadStream(this.#path), torn);
  }

  /** The lines, by position. An incomplete last one is left out. */
  async *oldestFirst(): AsyncIterable<readonly [number, Buffer]> {
    let position = 0;
    for await (const line of this.lines(() => {})) yield [(position += 1), line];
  }

  /** As `oldestFirst`, in the other direction. */
  *newestFirst(): Iterable<readonly [number, Buffer]> {
    if (!this.#isThere()) return;
    const file = openSync(this.#path, 'r');
    try {
      // Others may write meanwhile.
      const { size } = fstatSync(file);
      let { position } = endOf(file, size);
      for (const line of completeLinesFromEnd(file, size)) yield [position--, line];
    } finally {
      closeSync(file);
    }
  }

  /** Where the trail ends. @param seen a position whose hash is wanted; 0: none */
  state(seen: number): TrailState {
    let end: Omit<TrailState, 'seenHash'> | undefined;
    for (const [position, line] of this.newestFirst()) {
      const hash = hashOf(line);
      end ??= { last: { position, hash }, isSigned: tiesOf(line)?.sig !== undefined };
      if (position === seen) return { ...end, seenHash: hash };
      if (position < seen || seen === 0) break;
    }
    return { last: beginning, isSigned: false, ...end, seenHash: undefined };
  }

  /** The event that the version before has written what is there. */
  #begin(first: AuditEvent, events: number): AuditEvent {
    const details = { events, sha256: hashOf(readFileSync(this.#path)) };
    return { ...first, action: 'trail_begun', account: undefined, details };
  }

  /** Moves an incomplete last line, as a crash leaves it, to the end of another file. */
  #setTornLineAside(file: number): void {
    const [torn] = linesFromEnd(file);
    if (torn === undefined || torn.length === 0) return;
    const aside = openSync(`${this.#path}.torn`, 'a', 0o600);
    try {
      copyRights(this.#model, aside);
      writeFileSync(aside, `${torn.toString()}\n`);
      fsyncSync(aside);
    } finally {
      closeSync(aside);
    }
    ftruncateSync(file, fstatSync(file).size - torn.length);
    fsyncSync(file);
  }

  #isThere(): boolean {
    const stats = statSync(this.#path, { throwIfNoEntry: false });
    if (stats?.isFile() === false) {
      throw new AccountsError('store_invalid', `${this.name} is not a regular file: remove it`);
    }
    return stats !== undefined;
  }

  #open(): number {
    const { O_APPEND, O_CREAT, O_NONBLOCK, O_RDWR } = constants;
    // Opening a FIFO would block, or write into it.
    const isThere = this.#isThere();
    const file = openSync(this.#path, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK, 0o600);
    if (!isThere) copyRights(this.#model, file);
    return file;
  }
}

/** The end of a trail: the last line that is chained, and behind it what was added by hand or by the version before. */
function endOf(file: number, size?: number): TrailEnd {
  let last: Buffer | undefined;
  let events = 0;
  for (const line of completeLinesFromEnd(file, size)) {
    last ??= line;
    const ties = tiesOf(line);
    if (ties !== undefined) return { position: ties.position + events, hash: hashOf(last), chained: line };
    events += 1;
  }
  return { position: events, hash: last === undefined ? beginning.hash : hashOf(last), chained: undefined };
}

function* completeLinesFromEnd(file: number, size?: number): Generator<Buffer, void> {
  const lines = linesFromEnd(file, size);
  lines.next();
  yield* lines;
}

import { createReadStream, fstatSync, fsyncSync, ftruncateSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { beginning, readTies } from '../../audit/chain.ts';
import { fromEnd, readLines, type Line } from '../../audit/lines.ts';
import { displayName, openFile } from '../../yaml/files.ts';
import { AccountsError } from '../accounts-error.ts';
import { wantedTexts } from '../event-filter.ts';
import { chainEvents, trailEvent, type TrailEnd, type TrailOptions } from '../events.ts';
import type { AppendedEvent, AuditEvent, EventFilter, TrailState } from '../store.ts';
import { copyRights, syncFolder } from './replace.ts';
import { sha256Hex } from '../../cryptography.ts';

/**
 * The audit trail of an accounts file, in an append-only file next to it. The caller must hold the lock of the accounts file while it
 * appends.
 */
export class Trail {
  readonly #path: string;
  readonly #model: string;
  readonly #options: TrailOptions;

  /** @param accounts the path of the accounts file, not of a symbolic link to it */
  constructor(accounts: string, options: TrailOptions = {}) {
    this.#model = accounts;
    this.#path = trailPath(accounts);
    this.#options = options;
  }

  /**
   * Adds events, and returns once they are on disk. An event is written before its change, so a crash can leave an event without its
   * change, but never a change without its event.
   *
   * @throws AccountsError `store_invalid` if the path is not a regular file, `audit_key_missing` if the last event is signed with an unknown
   *   key; the file system's error if nothing could be added
   */
  append(events: readonly AuditEvent[]): readonly AppendedEvent[] {
    const [first] = events;
    if (first === undefined) return [];
    return this.#on(this.#path, (file) => {
      const { torn, ...end } = findEnd(file);
      if (torn.length > 0) this.#setAside(torn, file);
      const { size } = fstatSync(file);
      // If no line is chained, all lines were written by the previous version of the sidecar.
      const older = end.chained === undefined && size > 0 ? readFileSync(this.#path) : undefined;
      const begun = older && trailEvent(first, 'trail_begun', { events: end.position, sha256: sha256Hex(older) });
      const chained = chainEvents(end, begun === undefined ? events : [begun, ...events], this.#options);
      try {
        // `writeFileSync` is used because `writeSync` may return after a partial write if the disk is almost full.
        writeFileSync(file, chained.map(({ line }) => `${line}\n`).join(''));
        fsyncSync(file);
        if (size === 0) syncFolder(dirname(this.#path));
      } catch (error) {
        ftruncateSync(file, size);
        fsyncSync(file);
        throw error;
      }
      return chained.map(({ appended }) => appended);
    });
  }

  /** Records that the change announced by these events was not made. If this fails as well, the trail is as it would be after a crash. */
  appendFailure(appended: readonly AppendedEvent[]): void {
    const [first] = appended;
    if (first === undefined) return;
    try {
      this.append([trailEvent(first, 'change_failed', { first: first.position, events: appended.length })]);
    } catch {
      // This error is ignored, because the caller throws the error that made the change fail.
    }
  }

  /** The lines of the trail, newest first or, with `after`, oldest first. Most lines that the filter rejects are left out. */
  async *lines(filter: EventFilter): AsyncIterable<Line> {
    const { before = Infinity, after } = filter;
    const texts = wantedTexts(filter);
    if (!isFile(this.#path)) return;
    for await (const line of after === undefined ? this.#newestFirst() : readLines(createReadStream(this.#path))) {
      const isBetween = line.position < before && line.position > (after ?? 0);
      if (isBetween && texts.every((text) => line.bytes.includes(text))) yield line;
    }
  }

  /** Where the trail ends. @param seen the position whose hash is returned as `seenHash`; 0 if no such hash is needed */
  state(seen: number): TrailState {
    let end: Omit<TrailState, 'seenHash'> | undefined;
    for (const { position, bytes } of isFile(this.#path) ? this.#newestFirst() : []) {
      end ??= { last: { position, hash: sha256Hex(bytes) }, isSigned: readTies(bytes)?.sig !== undefined };
      if (position <= seen || seen === 0) return { ...end, seenHash: position === seen ? sha256Hex(bytes) : undefined };
    }
    return { last: beginning, isSigned: false, seenHash: undefined };
  }

  /** The lines of the trail, newest first. An incomplete last line is left out. */
  *#newestFirst(): Iterable<Line & { readonly position: number }> {
    using file = openFile(this.#path, 'r');
    // The size is read only once, because other processes may append to the file in the meantime.
    const { size } = fstatSync(file.fd);
    let { position } = findEnd(file.fd, size);
    for (const bytes of fromEnd(file.fd, size).drop(1)) yield { position: position--, bytes };
  }

  /** Moves an incomplete last line, which a crash may have left, from the trail to another file. */
  #setAside(torn: Buffer, trail: number): void {
    this.#on(`${this.#path}.torn`, (file) => {
      writeFileSync(file, `${torn.toString()}\n`);
      fsyncSync(file);
    });
    ftruncateSync(trail, fstatSync(trail).size - torn.length);
    fsyncSync(trail);
  }

  /** Opens a file for reading and appending, and passes it to `work`. A new file gets the rights of the accounts file. */
  #on<T>(path: string, work: (file: number) => T): T {
    // Checks that the path is a regular file before it is opened, because otherwise the trail could be written into a FIFO.
    const isThere = isFile(path);
    using file = openFile(path, 'a+');
    if (!isThere) copyRights(this.#model, file.fd);
    return work(file.fd);
  }
}

/** The path of the trail of an accounts file, next to that file. */
export function trailPath(accounts: string): string {
  return join(dirname(accounts), `${basename(accounts).replace(/\.ya?ml$/, '')}.audit.jsonl`);
}

/** Whether the file exists. @throws AccountsError `store_invalid` if the path is not a regular file */
function isFile(path: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isFile() === false)
    throw new AccountsError('store_invalid', `${displayName(path)} is not a regular file: remove it`);
  return stats !== undefined;
}

/** The end of a trail: its last chained line, and any later lines, which were added by hand or by the previous version of the sidecar. */
function findEnd(file: number, size = fstatSync(file).size): TrailEnd & { readonly torn: Buffer } {
  const lines = fromEnd(file, size);
  const torn = lines.next().value ?? Buffer.alloc(0);
  let hash: string | undefined;
  let events = 0;
  for (const line of lines) {
    hash ??= sha256Hex(line);
    const ties = readTies(line);
    if (ties !== undefined) return { position: ties.position + events, hash, chained: line, torn };
    events += 1;
  }
  return { position: events, hash: hash ?? beginning.hash, chained: undefined, torn };
}

import {
  closeSync,
  constants,
  createReadStream,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readSync,
  statSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { displayName } from '../../yaml/files.ts';
import { AccountsError } from '../accounts-error.ts';
import { auditActions, endList, type AuditEvent, type EventFilter, type RecordedEvent } from '../store.ts';
import { copyRights } from './replace.ts';

/** An event as a line of JSON; the time in RFC 3339. */
const lineForm = z.strictObject({
  at: z.iso.datetime(),
  actor: z.string(),
  action: z.enum(auditActions),
  account: z.string().optional(),
  details: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
});

const newline = 10;

/**
 * The audit trail of an accounts' file, in an append-only file next to it. The caller holds the lock of the accounts'
 * file while it appends.
 */
export class Trail {
  readonly #path: string;
  readonly #model: string;

  /** @param accounts the path of the accounts' file, not of a symbolic link to it */
  constructor(accounts: string) {
    this.#model = accounts;
    this.#path = join(dirname(accounts), `${basename(accounts).replace(/\.ya?ml$/, '')}.audit.jsonl`);
  }

  /**
   * Adds events, which are on the disk when it returns. An event is written before its change: a crash may leave an
   * event without its change, but no change without its event.
   *
   * @returns a function that removes them
   * @throws AccountsError `store_invalid` if the path is not a regular file; the file system's error, with nothing added
   */
  append(events: readonly AuditEvent[]): () => void {
    if (events.length === 0) return () => {};
    const lines = events.map(({ at, ...event }) => `${JSON.stringify({ at: new Date(at).toISOString(), ...event })}\n`);
    const file = this.#open();
    try {
      const { size } = fstatSync(file);
      const rollBack = (): void => this.#truncate(size);
      try {
        // A crash may have left an incomplete last line.
        writeSync(file, `${endsLine(file, size) ? '' : '\n'}${lines.join('')}`);
        fsyncSync(file);
      } catch (error) {
        rollBack();
        throw error;
      }
      return rollBack;
    } finally {
      closeSync(file);
    }
  }

  /** The events in the order of writing, their lines as positions. @param unreadable gets an error for each line that is not an event */
  async *read(
    { account, since = -Infinity, after = 0 }: EventFilter,
    unreadable = endList,
  ): AsyncIterable<RecordedEvent> {
    const stats = statSync(this.#path, { throwIfNoEntry: false });
    if (stats === undefined) return;
    if (!stats.isFile()) throw this.#odd();
    let position = 0;
    for await (const line of createInterface({ input: createReadStream(this.#path), crlfDelay: Infinity })) {
      position += 1;
      if (position <= after || line === '') continue;
      const event = eventOf(line);
      if (event === undefined) {
        unreadable(new AccountsError('store_invalid', `${displayName(this.#path)}:${position} is not an audit event`));
      } else if (event.at >= since && (account === undefined || event.account === account)) {
        yield { ...event, position };
      }
    }
  }

  #open(): number {
    const { O_APPEND, O_CREAT, O_NONBLOCK, O_RDWR } = constants;
    const before = statSync(this.#path, { throwIfNoEntry: false });
    // Opening a FIFO would block, or write into it.
    if (before !== undefined && !before.isFile()) throw this.#odd();
    const file = openSync(this.#path, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK, 0o600);
    if (before !== undefined) return file;
    copyRights(this.#model, file);
    return file;
  }

  #truncate(size: number): void {
    const file = openSync(this.#path, 'r+');
    try {
      ftruncateSync(file, size);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
  }

  #odd(): AccountsError {
    return new AccountsError('store_invalid', `${displayName(this.#path)} is not a regular file: remove it`);
  }
}

function endsLine(file: number, size: number): boolean {
  if (size === 0) return true;
  const last = Buffer.alloc(1);
  readSync(file, last, 0, 1, size - 1);
  return last[0] === newline;
}

function eventOf(line: string): AuditEvent | undefined {
  try {
    const { at, account, ...event } = lineForm.parse(JSON.parse(line));
    return { ...event, at: Date.parse(at), account };
  } catch {
    return undefined;
  }
}

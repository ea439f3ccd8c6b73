import { duration, within, WrongValue, type ValueType } from '../input/value-types.ts';
import { isWellFormed } from './api-key.ts';

/**
 * The ids of accounts and API keys, which are sent in headers, logged and written to the trail. `.` and `..` are not allowed, because they
 * name folders in paths. API keys are not allowed either, because they are secret.
 */
export const identifier: ValueType<string> = {
  name: 'id',
  expected: '1 to 64 letters, digits, ".", "_" or "-", but not an API key',
  pattern: /^(?!\.{1,2}$|[ps]k_(?:test|live)_[A-Za-z0-9_-]{16})[A-Za-z0-9._-]{1,64}$/,
  read: (text) => text,
};

/**
 * The characters of a stored name. Lone surrogates are excluded because databases refuse them. Characters that break a line or reorder the
 * text around them are excluded so that a name in a log or a table cannot be mistaken for something else.
 */
const nameCharacters = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202A-\u202E\u2066-\u2069]{1,200}$/u;

/**
 * The characters of a new name. In addition, invisible and unassigned characters, such as direction marks, joiners and private-use
 * characters, are excluded, because two different names could otherwise look the same.
 */
const newNameCharacters = /^[^\p{C}\p{Zl}\p{Zp}]{1,200}$/u;

/** The name of an account or a key as it is stored, or the text to search names for. */
export const accountName: ValueType<string> = {
  name: 'text',
  expected: '1 to 200 characters without control characters',
  pattern: /./,
  read: (text) => {
    // In the accounts file, such a name would be read as a reference.
    if (/^\$\{.*\}$/s.test(text)) throw new WrongValue('expected a name, not a reference to a variable');
    return nameCharacters.test(text) ? text : undefined;
  },
};

/** A new name for an account or a key. */
export const newName: ValueType<string> = {
  ...accountName,
  expected: '1 to 200 characters without control, format or private-use characters',
  read: (text) => (newNameCharacters.test(text) ? accountName.read(text) : undefined),
};

export const apiKey: ValueType<string> = {
  name: 'API key',
  expected: 'pk_test_, pk_live_, sk_test_ or sk_live_ and 16 to 200 letters, digits, "_" or "-"',
  pattern: /^[ps]k_(?:test|live)_/,
  read: (text) => (isWellFormed(text) ? text : undefined),
};

export const sha256: ValueType<string> = {
  name: 'SHA-256',
  expected: '64 hex digits in lower case',
  pattern: /^[0-9a-f]{64}$/,
  read: (text) => text,
};

/** The last characters of an API key, by which a person recognises it. */
export const lastFour: ValueType<string> = {
  name: 'end of a key',
  expected: '4 letters, digits, "_" or "-"',
  pattern: /^[A-Za-z0-9_-]{4}$/,
  read: (text) => text,
};

/** The position of an event in the audit trail. */
export const position: ValueType<number> = {
  name: 'place',
  expected: 'a position',
  pattern: /^[0-9]{1,15}$/,
  read: Number,
};

// The durations that operators may choose. The upper bounds catch durations given in the wrong unit.

const day = 86_400_000;

/** How long an API key lives. */
export const lifetime = within(duration, 1_000, 3_650 * day, 'from 1s to 3650d');
/** How long the old key stays valid after its successor is issued. */
export const overlap = within(duration, 0, 365 * day, 'up to 365d');
/** The overlap if none is given. */
export const usualOverlap = '7d';
/** The longest grace period, in milliseconds. */
export const maxGrace = 365 * day;
/** How long the previous credentials, or plaintext, are accepted after a change. */
export const grace = within(duration, 1_000, maxGrace, 'from 1s to 365d');

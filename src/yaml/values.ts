import { resolve } from 'node:path';
import { z } from 'zod';
import { parseAs, WrongValue, type ValueType } from '../input/value-types.ts';
import { orIssue } from '../input/text-value.ts';
import type { Files } from './files.ts';

/** Environment variables, as in `process.env`. */
export type Env = Readonly<Record<string, string | undefined>>;

/** Functions that create schemas for values. A value may be written as text, as `"${ENV_NAME}"` or as `{ file: path }`. */
export type Values = ReturnType<typeof valuesIn>;

type Written = string | number | { file: string };

const fileReference = z
  .strictObject({ file: z.string().describe('Path of the file, relative to the one that names it.') })
  .meta({ id: 'FileReference', description: 'The text of a file, without the newline at its end.' });
const environmentReference = /^\$\{([^{}]*)\}$/;

/** @param file the file with the values. Paths of other files are relative to its folder; `files` reads those files */
export function valuesIn({ directory, files }: { directory: string; files: Pick<Files, 'read'> }, env: Env) {
  function readFile(path: string): string {
    return files.read(resolve(directory, path));
  }

  function readText(written: Written): string {
    if (typeof written === 'number') return String(written);
    if (typeof written === 'object') return readFile(written.file).replace(/\r?\n$/, '');
    const name = environmentReference.exec(written)?.[1];
    if (name === undefined) return written;
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) throw new WrongValue('expected the name of a variable in "${…}"');
    const text = Object.hasOwn(env, name) ? env[name] : undefined;
    if (text === undefined) throw new WrongValue(`the environment variable ${name} is not set`);
    return text;
  }

  /**
   * A schema for a value of this type. @param goesOn as in `orIssue`. Set it for the short form of a value that can also be written as
   * members
   */
  function value<T>(type: ValueType<T>, goesOn = false) {
    return z
      .union(waysToWrite(type), { error: ({ input }) => mismatch(input, type) })
      .transform(orIssue((written: Written) => parseAs(type, readText(written)), goesOn))
      .meta({ title: type.name });
  }

  /** A schema for a PEM file of this type. The value is the path of the file, or the PEM text itself. */
  function pem<T>(type: ValueType<T>) {
    return value({ ...type, read: (text) => type.read(text.startsWith('-----BEGIN') ? text : readFile(text)) });
  }

  return { value, pem };
}

/** The ways to write a value, as the schema shows them to editors: a string that matches, or a reference. */
function waysToWrite({ choices, pattern, numbers }: ValueType<unknown>): readonly z.ZodType<Written, Written>[] {
  const patterns = choices === undefined ? [pattern, environmentReference] : [environmentReference];
  const text = z.string().meta({ pattern: patterns.map(({ source }) => source).join('|') });
  const ways: z.ZodType<Written, Written>[] = [text, fileReference];
  if (choices !== undefined) ways.unshift(z.enum(choices));
  if (numbers) ways.push(z.int().meta({ minimum: 0 }));
  return ways;
}

/** The message for a value of the wrong type. It does not quote the value, which could be a secret. */
function mismatch(input: unknown, { expected, pattern }: ValueType<unknown>): string {
  if (input === undefined) return `missing: expected ${expected}`;
  const isText = (typeof input === 'number' || typeof input === 'boolean') && pattern.test(String(input));
  return `expected ${expected}${isText ? ': put it in quotes' : ''}`;
}

import { z } from 'zod';
import { parseAs, WrongValue, type ValueType } from './value-types.ts';

/** A schema for a JSON string of this type. Unlike a value of the configuration, the string cannot refer to a file or a variable. */
export function textValue<T>(type: ValueType<T>) {
  const expected = `expected ${type.expected}`;
  const text = z.string({ error: ({ input }) => (input === undefined ? `missing: ${expected}` : expected) });
  const form =
    type.choices === undefined
      ? type.pattern.source.length > 1 && { pattern: type.pattern.source }
      : { enum: type.choices };
  return text
    .meta({ description: capitalised(type.expected), ...form })
    .transform(orIssue((written) => parseAs(type, written)));
}

/**
 * A step of a schema that reads a value and turns a `WrongValue` into an issue.
 *
 * @param goesOn whether the checks of the surrounding object or list still run. Needed in a union, because zod would otherwise report the
 *   unknown members of another alternative, if they are its only mistakes, instead of this issue
 */
export function orIssue<Written, T>(read: (written: Written) => T, goesOn = false) {
  return (written: Written, context: z.core.$RefinementCtx): T => {
    try {
      return read(written);
    } catch (error) {
      if (!(error instanceof WrongValue)) throw error;
      // `continue` is omitted rather than `false`, because omitting it has a different effect: with `continue: false`, zod would skip the
      // checks that see the rest of the value.
      context.addIssue({ code: 'custom', message: error.message, ...(goesOn && { continue: true }) });
      return z.NEVER;
    }
  };
}

export function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

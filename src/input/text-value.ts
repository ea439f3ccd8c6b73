import { z } from 'zod';
import { parseAs, WrongValue, type ValueType } from './value-types.ts';

/** A text of this type in JSON: unlike a value of the configuration it is always written out. */
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
 * A step of a schema that reads a value; `WrongValue` becomes an issue.
 *
 * @param goesOn whether checks of what the value is in still run. In a union only such an issue stands beside those of
 *   alternatives that ignore unknown members
 */
export function orIssue<Written, T>(read: (written: Written) => T, goesOn = false) {
  return (written: Written, context: z.core.$RefinementCtx): T => {
    try {
      return read(written);
    } catch (error) {
      if (!(error instanceof WrongValue)) throw error;
      // `continue: false` is not the default: zod would skip the checks that see the rest of the value.
      context.addIssue({ code: 'custom', message: error.message, ...(goesOn && { continue: true }) });
      return z.NEVER;
    }
  };
}

export function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

import { z } from 'zod';
import { parseAs, WrongValue, type Kind } from './kinds.ts';

/** A text of this kind in JSON: unlike a value of the configuration it is always written out. */
export function textValue<T>(kind: Kind<T>) {
  const expected = `expected ${kind.expected}`;
  const text = z.string({ error: ({ input }) => (input === undefined ? `missing: ${expected}` : expected) });
  const form =
    kind.choices === undefined
      ? kind.pattern.source.length > 1 && { pattern: kind.pattern.source }
      : { enum: kind.choices };
  return text
    .meta({ description: capitalised(kind.expected), ...form })
    .transform(orIssue((written) => parseAs(kind, written)));
}

/** A step of a schema that reads a value; `WrongValue` becomes an issue. */
export function orIssue<Written, T>(read: (written: Written) => T) {
  return (written: Written, context: z.core.$RefinementCtx): T => {
    try {
      return read(written);
    } catch (error) {
      if (!(error instanceof WrongValue)) throw error;
      context.addIssue(error.message);
      return z.NEVER;
    }
  };
}

export function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

import { z } from 'zod';
import type { Values } from '../yaml/values.ts';
import type { Group, ValuesOf, WholeNumber } from './limits.ts';

/** Creates the schema of a group of settings from their descriptions. */
export function groupSchema<G extends Group>(group: G, { value }: Values) {
  const members = Object.entries(group).map(([name, { type, default: written, text }]) => {
    const schema = 'read' in type ? value(type).prefault(written) : wholeNumber(type).default(Number(written));
    return [name, schema.describe(text)];
  });
  return z.strictObject(
    Object.fromEntries(members) as { [Name in keyof G]: z.ZodPrefault<z.ZodType<ValuesOf<G>[Name]>> },
  );
}

function wholeNumber({ min, max }: WholeNumber) {
  const number = z.int().min(min);
  return max === undefined ? number : number.max(max);
}

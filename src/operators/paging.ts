import { z } from 'zod';
import { identifier } from '../accounts/value-types.ts';
import { textValue } from '../input/text-value.ts';

/** The query parameter that says where a page starts. */
export const after = textValue(identifier).optional().describe('Starts after the account with this id.');

/** Maximum number of items on a page. */
const maxPageSize = 1_000;

/** The query parameter for the size of a page. */
export const pageSize = z
  .string({ error: `expected a number from 1 to ${maxPageSize}` })
  .transform((text, context) => {
    const size = /^[0-9]{1,4}$/.test(text) ? Number(text) : 0;
    if (size >= 1 && size <= maxPageSize) return size;
    context.addIssue(`expected a number from 1 to ${maxPageSize}`);
    return z.NEVER;
  })
  .prefault('100')
  .meta({ type: 'integer', minimum: 1, maximum: maxPageSize, default: 100 })
  .describe(`Items per page, from 1 to ${maxPageSize}.`);

import * as fc from 'fast-check';

/** Whether few cases are enough. `npm run test:unit` sets this, so that it takes only seconds. */
export const few = process.env['FEW_CASES'] !== undefined;

/** The number of cases of a property: all in `npm test`, a twentieth if few are enough. */
export function runs(all: number): number {
  return few ? Math.ceil(all / 20) : all;
}

/** Any code point except surrogates. fast-check has `unit: 'binary'` for this, but it takes seconds to set up. */
export const anyCharacter = fc
  .integer({ min: 0, max: 0x10_ff_ff })
  .filter((code) => code < 0xd8_00 || code > 0xdf_ff)
  .map((code) => String.fromCodePoint(code));

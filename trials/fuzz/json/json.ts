import * as fc from 'fast-check';
import { JsonReader } from '../../../src/envelope/json/json-reader.ts';
import { anyCharacter } from '../../../test/support/property.ts';
import { plaintexts } from '../envelope/arbitrary.ts';
import { mutated, mutations, pieces } from '../mutation.ts';
import { ensure, type Part } from '../part.ts';

interface JsonCase {
  /** The document, with one character per byte. */
  readonly document: string;
  /** The positions at which the document is divided. */
  readonly cuts: readonly number[];
}

const documents = fc.oneof(
  plaintexts,
  fc.json({ maxDepth: 4, stringUnit: anyCharacter }).map((json) => Buffer.from(json).toString('latin1')),
);

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function isJson(bytes: Buffer): boolean {
  try {
    JSON.parse(decoder.decode(bytes));
    return true;
  } catch {
    return false;
  }
}

/** Compares the JSON reader with a strict decoder and JSON.parse. */
export const jsonPart: Part<JsonCase> = {
  name: 'json',
  share: 30,
  lanes: 1,
  cases: fc.record({
    document: fc.tuple(documents, mutations).map(([document, changes]) => mutated(document, changes)),
    cuts: fc.array(fc.nat(65_535), { maxLength: 3 }),
  }),
  open: (tally) =>
    Promise.resolve({
      check: ({ document, cuts }) => {
        const reader = new JsonReader();
        for (const piece of pieces(document, cuts)) {
          const bytes = Buffer.from(piece, 'latin1');
          reader.read(bytes, 0, bytes.length);
        }
        const verdict = isJson(Buffer.from(document, 'latin1'));
        ensure(reader.accepts === Number(verdict), 'the reader agrees with JSON.parse', verdict);
        tally.count(verdict ? 'accepted' : 'refused');
      },
      close: () => Promise.resolve(),
    }),
};

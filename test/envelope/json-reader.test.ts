import { describe, expect, test } from 'vitest';
import { JsonReader } from '../../src/envelope/json/json-reader.ts';
import { runs } from '../support/property.ts';

/** Whether the reader accepts the document when it is read in pieces that end at these positions. */
function accepts(document: Buffer, ...ends: readonly number[]): boolean {
  const reader = new JsonReader();
  let from = 0;
  for (const to of [...ends, document.length]) {
    reader.read(document, from, to);
    from = to;
  }
  return reader.accepts === 1;
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A second opinion, independent of the reader: a strict decoder and JSON.parse. */
function isJson(document: Uint8Array): boolean {
  try {
    JSON.parse(decoder.decode(document));
    return true;
  } catch {
    return false;
  }
}

/** Documents by the feature that they test, following the categories of JSONTestSuite (RFC 8259). */
const good: Readonly<Record<string, readonly string[]>> = {
  arrays: ['[]', '[[]]', '[ [ ] , [] ]', '[1,[2,{}],{"a":[]},null]', '[""]', '[[[[[[]]]]]]', '[\n1\n,\r2\t]'],
  objects: [
    '{}',
    '{"a":1}',
    '{"a":1,"a":2}',
    '{"":0}',
    '{"a":{"b":{"c":[]}}}',
    '{ "a" : 1 , "b" : [ ] }',
    '{"\\u0000":1}',
  ],
  numbers: [
    '0',
    '-0',
    '1',
    '-1',
    '10',
    '0.1',
    '1.0e+2',
    '1E-2',
    '0e1',
    '-0.0E0',
    '123456789012345678901234567890',
    '1e999',
  ],
  strings: [
    '""',
    '"a"',
    '"\\"\\\\\\/\\b\\f\\n\\r\\t"',
    '"\\u0041\\uABCD\\uabcd"',
    '"\x7f"',
    '"é€😀"',
    '"\\ud800"',
    '"\\udc00\\ud800"',
  ],
  'characters at the bounds of their lengths': ['"\x80\u07ff\u0800\ud7ff\ue000\uffff\u{10000}\u{10ffff}"', '"\ufeff"'],
  literals: ['true', 'false', 'null', '[true,false,null]', '{"true":true}'],
  'white space': [' 1', '1 ', '\t\n\r 1 \r\n\t', ' [ ] ', ' { } '],
};

const bad: Readonly<Record<string, readonly string[]>> = {
  'nothing, or more than one value': [
    '',
    ' ',
    '1 2',
    '[][]',
    '{}{}',
    '"a""b"',
    '[]1',
    '1[]',
    '1,2',
    '1]',
    '1}',
    ',',
    ':',
  ],
  arrays: [
    '[',
    ']',
    '[1',
    '[1,',
    '[1,]',
    '[,1]',
    '[1,,2]',
    '[1 2]',
    '[1}',
    '[}',
    '[:]',
    '[1:2]',
    '["a":1]',
    '[[]',
    '[]]',
    '[1,"a":2]',
  ],
  objects: [
    '{',
    '}',
    '{"a"',
    '{"a":',
    '{"a":1',
    '{"a":1,',
    '{"a":1,}',
    '{,}',
    '{"a"}',
    '{"a",1}',
    '{"a":1 "b":2}',
    '{"a"::1}',
    '{a:1}',
    '{1:1}',
  ],
  'objects like arrays': [
    '{"a":1]',
    '{]',
    '{"a":1,2}',
    '{"a":1,"b"}',
    '{"a":1,"b",}',
    '{[]:1}',
    '{"a":1,[]:1}',
    '{"a":1,{}}',
    '{"a":}',
    '{"a":[}]',
  ],
  numbers: [
    '-',
    '+1',
    '01',
    '-01',
    '1.',
    '.1',
    '1.e1',
    '1e',
    '1e+',
    '1E-',
    '0x1',
    '1_0',
    'Infinity',
    'NaN',
    '-Infinity',
    '1a',
    '--1',
    '1.2.3',
    '00',
    '1e1.5',
  ],
  strings: [
    '"',
    '"a',
    '"\\"',
    '"\\',
    '"\\x"',
    '"\\u12"',
    '"\\u123"',
    '"\\u123g"',
    '"\\U0041"',
    "'a'",
    '"\n"',
    '"\t"',
    '"\0"',
    '"\x1f"',
    '"\\\n"',
    '"a"b',
  ],
  literals: ['tru', 'truee', 'True', 'nul', 'nulll', 'fals', 'undefined', 'tnull', '[nul]', '[truefalse]', 'n', 't,'],
  'white space of other kinds': ['\u00a01', '1\v', '\f1', '\u20281', '\ufeff1', '1\0', '[\u00a0]', '/**/1', '1//'],
};

/** Sequences of bytes that are not UTF-8, for use in strings. */
const notUtf8 =
  '80 bf c0af c080 c1bf e08080 e09fbf eda080 edbfbf f0808080 f08fbfbf f4908080 f5808080 ff fe c3 e2 e282 f0 f09f f09f98 c341 e28241 f09f9841 c3c3 e9 fffe 22c3 80808080'.split(
    ' ',
  );

describe('a document is accepted', () => {
  test.each(Object.entries(good))('with good %s', (_, documents) => {
    for (const document of documents.map((text) => Buffer.from(text))) {
      expect([document.toString(), accepts(document), isJson(document)]).toEqual([document.toString(), true, true]);
    }
  });
});

describe('a document is refused', () => {
  test.each(Object.entries(bad))('with bad %s', (_, documents) => {
    for (const document of documents.map((text) => Buffer.from(text))) {
      expect([document.toString(), accepts(document), isJson(document)]).toEqual([document.toString(), false, false]);
    }
  });

  test.each(notUtf8)('with the bytes %s, in a value, in a name, and after a comma', (hex) => {
    for (const [before, after] of [
      ['"', '"'],
      ['{"', '":1}'],
      ['["",  "', '"]'],
      ['"', ''],
      ['', ''],
    ] as const) {
      const document = Buffer.concat([Buffer.from(before), Buffer.from(hex, 'hex'), Buffer.from(after)]);
      expect([accepts(document), isJson(document)]).toEqual([false, false]);
    }
  });

  test('in UTF-16 or UTF-32', () => {
    expect(accepts(Buffer.from('[1]', 'utf16le'))).toBe(false);
    expect(accepts(Buffer.from('[1]', 'utf16le').swap16())).toBe(false);
    expect(accepts(Buffer.from('[\0\0\0]\0\0\0'))).toBe(false);
  });
});

test('every document of three significant bytes gets the same verdict as from JSON.parse', () => {
  const telling = Buffer.from(' "\\{}[]:,-+.019eEautfn/\n\0\x80\xc3\xff', 'latin1');
  for (const a of telling) {
    for (const b of telling) {
      for (const c of telling) {
        const document = Buffer.from([a, b, c]);
        if (accepts(document) !== isJson(document)) expect.unreachable(document.toString('latin1'));
      }
    }
  }
});

test('the verdict is the same wherever a document is divided', () => {
  const documents = [...Object.values(good), ...Object.values(bad)].flat().map((text) => Buffer.from(text));
  const joined = Buffer.from(`[${Object.values(good).flat().join(',')}]`);
  for (const document of [...documents, joined]) {
    const verdict = isJson(document);
    for (let first = 0; first <= document.length; first += 1) {
      const second = Math.min(document.length, first + (first % 3));
      if (accepts(document, first, second) !== verdict) expect.unreachable(`${document.toString()} at ${first}`);
    }
  }
});

describe('nesting', () => {
  /**
   * Creates a document with containers nested this deep, about one in three of which is an object. Returns how the document begins and
   * ends.
   */
  function nested(depth: number, seed: number): { readonly opening: string; readonly closing: string[] } {
    let opening = '';
    const closing: string[] = [];
    for (let level = 0; level < depth; level += 1) {
      const isObject = ((level * 2_654_435_761 + seed) >>> 7) % 3 === 0;
      opening += isObject ? '{"a":' : '[';
      closing.unshift(isObject ? '}' : ']');
    }
    return { opening, closing };
  }

  test('of any depth near the size of a stored group of levels must be closed in the right order', () => {
    for (let depth = 1; depth < 140; depth += 1) {
      const { opening, closing } = nested(depth, depth);
      const document = `${opening}1${closing.join('')}`;
      expect(accepts(Buffer.from(document))).toBe(true);
      expect(accepts(Buffer.from(` ${document}`))).toBe(true);
      expect(accepts(Buffer.from(`${opening}1${closing.slice(1).join('')}`))).toBe(false);
      expect(accepts(Buffer.from(`${document}]`))).toBe(false);
      for (let level = 0; level < depth; level += 1) {
        const wrong = closing.with(level, closing[level] === ']' ? '}' : ']').join('');
        if (accepts(Buffer.from(`${opening}1${wrong}`))) expect.unreachable(`level ${level} of ${depth}`);
      }
    }
  });

  test('is remembered while other containers open and close at any depth', () => {
    for (const depth of [14, 15, 28, 29, 30, 31, 45, 46, 62, 63, 64]) {
      for (const up of [1, 2, 3, 15, 16, 17, 33]) {
        const { opening, closing } = nested(depth, 5);
        const inner = `${'['.repeat(up)}${']'.repeat(up)}`;
        const value = closing[0] === ']' ? `${inner},${inner}` : `${inner},"b":${inner}`;
        expect(accepts(Buffer.from(`${opening}${value}${closing.join('')}`))).toBe(true);
      }
    }
  });

  test('of a million levels is read, and holds little more than a bit for each', () => {
    const depth = 1_000_000;
    const reader = new JsonReader();
    const brackets = Buffer.alloc(depth, '[');
    const before = process.memoryUsage().arrayBuffers;
    reader.read(brackets, 0, depth);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(depth / 8 + 16_384);
    expect(reader.accepts).toBe(0);
    reader.read(Buffer.alloc(depth, ']'), 0, depth);
    expect(reader.accepts).toBe(1);
    reader.read(Buffer.from(']'), 0, 1);
    expect(reader.accepts).toBe(0);
  });
});

test('after a fault, nothing is accepted any more, whatever follows', () => {
  for (const fault of ['}', ',', '"\x01"', '01', '\xff', ']]', '[}', '1 1']) {
    const reader = new JsonReader();
    for (const piece of [Buffer.from(fault, 'latin1'), Buffer.from(' ] } [ ] { } " 1 ')])
      reader.read(piece, 0, piece.length);
    expect(reader.accepts).toBe(0);
  }
});

test('damaged documents get the same verdict as from a strict decoder and JSON.parse', () => {
  const telling = Buffer.from('\xff\x80\xc3"\\[]{}:,0123e.-tn \n\0', 'latin1');
  const whole = Buffer.from(`[${Object.values(good).flat().join(',')}]`);
  let state = 1;
  const below = (limit: number): number => {
    state = Math.imul(state, 1_664_525) + 1_013_904_223;
    return (state >>> 8) % limit;
  };
  const verdicts = { true: 0, false: 0 };
  for (let i = 0; i < runs(20_000); i += 1) {
    const from = below(3) === 0 ? below(whole.length) : 0;
    const document = Buffer.from(whole.subarray(from, below(4) === 0 ? from + below(40) : whole.length));
    const count = below(3);
    for (let change = 0; change < count && document.length > 0; change += 1) {
      document[below(document.length)] = telling[below(telling.length)] as number;
    }
    const verdict = isJson(document);
    verdicts[`${verdict}`] += 1;
    if (accepts(document, below(document.length + 1)) !== verdict) expect.unreachable(document.toString('latin1'));
  }
  expect(Math.min(verdicts.true, verdicts.false)).toBeGreaterThan(runs(1_000));
});

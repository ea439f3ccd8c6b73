import { describe, expect, test } from 'vitest';
import { hintForDocument, hintForPlaintext } from '../../src/envelope/hints/accepted-hints.ts';
import { isJson } from '../../src/envelope/json/json.ts';

const document = '{"amount":1500,"currency":"EUR"}';
const ciphertext = 'b1cfe5cf79092760fa94b1d5aa17a154';

/** A JSON string of `length` bytes, followed by white space up to `to` bytes. */
function filled(length: number, fill: string, to: number): Buffer {
  const json = JSON.stringify('x'.repeat(length - 2));
  return Buffer.from(json.padEnd(to, fill));
}

test.each([
  ['a document that was serialised twice', JSON.stringify(document), 'serialised twice'],
  ['a list that was serialised twice', ` ${JSON.stringify('[1, 2]')}\n`, 'serialised twice'],
  ['a document that was serialised three times', JSON.stringify(JSON.stringify(document)), 'serialised twice'],
  ['an envelope', `{"data":"${ciphertext}"}`, 'sealed twice'],
  ['an envelope in base64 and lines', `{\n  "data": "scflz3kJJ2D6lLHVqhehVA=="\n}\n`, 'sealed twice'],
  ['a document in "data"', `{"data":${document}}`, 'only "data"'],
  ['text in "data"', '{"data":"order-1001"}', 'only "data"'],
  ['an empty text in "data"', '{"data":""}', 'only "data"'],
  ['nine tabs to the end of a block', filled(7, '\t', 16), 'padded twice'],
  ['ten line feeds to the end of a block', filled(22, '\n', 32), 'padded twice'],
  ['thirteen carriage returns to the end of a block', filled(35, '\r', 48), 'padded twice'],
  ['spaces to the end of a block', filled(20, ' ', 32), 'fill the last block'],
  ['32 spaces, which is a padding to 32 bytes', filled(32, ' ', 64), 'padded twice'],
  ['spaces behind "data" and others', '{"data":1,"x":2}'.padEnd(32, ' '), 'spaces'],
])('a hint names a likely slip in an accepted plaintext: %s', (_, plaintext, what) => {
  const bytes = Buffer.from(plaintext as string);
  expect(isJson(bytes)).toBe(true);
  const hint = hintForPlaintext(bytes) ?? 'none';
  expect(hint).toContain(what);
  expect(hint).toMatch(/^[ -~]{1,200}$/);
});

test.each([
  ['a document', document],
  ['a document of a block', '{"amount":10000}'],
  ['a document and a line break', '{"amount":1000}\n'],
  ['a block that ends in one space', '{"amount":1000} '],
  ['nine line feeds to the end of a block', filled(7, '\n', 16)],
  ['ten line feeds that end within a block', filled(20, '\n', 30)],
  ['text', '"order 1001"'],
  ['a number as text', '"1500"'],
  ['a word of JSON as text', '"null"'],
  ['text in brackets that is not JSON', '"[draft]"'],
  ['"data" and another member', `{"data":"${ciphertext}","more":1}`],
  ['"data" in a member', `{"more":{"data":"${ciphertext}"}}`],
  ['"database" alone', '{"database":1}'],
  ['"data" that is escaped', '{"more":1,"d\\u0061ta":2}'],
  ['a list', '[1,2]'],
  ['null', 'null'],
])('a plaintext that is not a slip gets no hint: %s', (_, plaintext) => {
  expect(hintForPlaintext(Buffer.from(plaintext as string))).toBeUndefined();
});

describe('hints are for developers who are trying things out', () => {
  const twice = (length: number): Buffer => Buffer.from(JSON.stringify(JSON.stringify('x'.repeat(length - 6))));

  test('a plaintext of 64 KiB gets a hint', () => {
    expect(twice(65_536)).toHaveLength(65_536);
    expect(hintForPlaintext(twice(65_536))).toContain('serialised twice');
  });

  test('a longer plaintext gets no hint', () => {
    expect(hintForPlaintext(twice(65_537))).toBeUndefined();
  });
});

test('a document that was sent to aes-encrypt, but is meant for aes-decrypt, gets a hint', () => {
  expect(hintForDocument(Buffer.from(`{"encrypted_data":"${ciphertext}"}`))).toContain(
    'that member is for aes-decrypt',
  );
  expect(hintForDocument(Buffer.from('{"encrypted_data":1}'))).toBeUndefined();
  expect(hintForDocument(Buffer.from(JSON.stringify(document)))).toContain('serialised twice');
  expect(hintForDocument(Buffer.from(document))).toBeUndefined();
});

import { randomBytes } from 'node:crypto';
import { credentialsOf, noMemory } from '../../test/support/sidecar.ts';
import { findCause } from '../../src/envelope/hints/diagnosis.ts';
import { decodeInSlices } from '../../src/envelope/encoding.ts';
import { hasEnvelopeShape, isEnvelope, openEnvelope } from '../../src/envelope/envelope.ts';
import { createCodec } from '../../src/envelope/formats.ts';
import { hintForBody } from '../../src/envelope/hints/hints.ts';
import { isJson, minifyJson } from '../../src/envelope/json/json.ts';
import { stringMember } from '../../src/envelope/json/members.ts';
import { sliceLength } from '../../src/slices.ts';
import { readDataMember } from '../../src/envelope/json/sole-member.ts';
import { BodyReader } from '../../src/http1/parse/body-reader.ts';
import { HeldText } from '../../src/http1/parse/held-text.ts';
import { maxLines } from '../../src/http1/incoming.ts';

/**
 * Times each step of a merchant's request whose work grows with the amount of data and runs in one turn of the event loop. Each step gets
 * as much data as it may, with the contents that cost the most. Prints the minimum and the maximum of 30 runs after a warm-up. `npm run
 * steps`; docs/figures/steps.txt has the figures.
 */
const runs = 30;

const secrets = { key: 'p4Wn6bVc2KsH8dTf0QaZ5xJm3GyRu7Le', iv: 'Bn4Mx8Cz1Vl6Kj3H' };
const credentials = credentialsOf(secrets);
const codec = createCodec(credentials, 'hex');
const testBody = 65_536;

/** Returns the result of work that fits into one slice and therefore does not return a promise. */
function atOnce<T>(result: T | Promise<T>): T {
  if (result instanceof Promise) throw new Error('this takes several slices');
  return result;
}

/** A JSON array of small objects, `length` bytes long. */
function documentOf(length: number): Buffer {
  const item = '{"note":"a\\u0062\\"","a":[1.5e3,{}]},';
  const text = `[${item.repeat(Math.floor((length - 3) / item.length))}0`;
  return Buffer.from(`${text.padEnd(length - 1)}]`);
}

const hex = randomBytes(sliceLength / 2).toString('hex');
const slice = Buffer.from(`{"data":"${hex.slice(0, sliceLength - 11)}"}`);
const escapes = Buffer.from(`{"data":"${'\\u0030'.repeat((sliceLength - 12) / 6)}"}`);
const brackets = Buffer.alloc(sliceLength, '[');
const document = documentOf(sliceLength);
const sealed = Buffer.from(codec.seal(documentOf(sliceLength / 2 - 48)));
const testDocument = documentOf(testBody);
const hints = {
  members: Buffer.from(`{${'"Dat\\u0061":[],'.repeat(testBody / 15 - 2)}"b":1}`),
  'line breaks': Buffer.from(`{"a":"${'\n'.repeat(testBody - 8)}"}`),
  'white space': Buffer.alloc(testBody, ' '),
  'a string': Buffer.from(JSON.stringify('"'.repeat(testBody / 2 - 2))),
};
/** Objects with different members, which would be costly to build. */
const objects = Array.from({ length: testBody / 17 }, (_, i) => `{\\"${(i + 46_656).toString(36)}\\":0},`).join('');
const jsonInData = Buffer.from(`{"data":"[${objects}0]"}`);
const encryptedText = randomBytes(testBody / 2 - 32).toString('hex');
/** Looks like the beginning of JSON at every position, but is not JSON. */
const sealedBrackets = createCodec(credentials, 'base64').seal(Buffer.alloc((testBody * 3) / 4 - 48, '['));
const encryptedBrackets = atOnce(readDataMember(Buffer.from(sealedBrackets)))?.toString() ?? '';
const encryptedSlice = Buffer.from(sealed.toString().replace('data', 'encrypted_data'));

/** Chunks of a body, as many as a socket delivers at once. */
const chunks = (chunk: string): Buffer => Buffer.from(chunk.repeat(testBody / chunk.length));
const shortChunks = chunks('1\r\nx\r\n');
const longChunks = chunks('1;a\r\nx\r\n');

function readChunks(bytes: Buffer): void {
  const reader = new BodyReader(new HeldText());
  reader.begin({ type: 'chunked', length: undefined }, 0);
  reader.read(bytes, 0, maxLines);
}

const steps: readonly (readonly [name: string, bytes: number, work: () => unknown])[] = [
  ['read chunks of one byte', shortChunks.length, () => readChunks(shortChunks)],
  ['read chunks of one byte with an extension', longChunks.length, () => readChunks(longChunks)],
  ['find `data`', slice.length, () => readDataMember(slice)],
  ['find `data`, written in escapes', escapes.length, () => readDataMember(escapes)],
  ['decode hex', sliceLength, () => decodeInSlices(Buffer.from(hex))],
  ['decode base64', sliceLength, () => decodeInSlices(Buffer.from(Buffer.from(hex, 'hex').toString('base64')))],
  ['check JSON', document.length, () => isJson(document)],
  ['check open brackets', brackets.length, () => isJson(brackets)],
  ['open an envelope', sealed.length, () => openEnvelope(sealed, [codec], noMemory)],
  ['open one with neither of two credentials', slice.length, () => openEnvelope(slice, [codec, codec], noMemory)],
  ['refuse open brackets', brackets.length, () => openEnvelope(brackets, [codec], noMemory)],
  ['tell plaintext from an envelope', slice.length, () => hasEnvelopeShape(slice)],
  ['tell an envelope on a plain route', slice.length, () => isEnvelope(slice)],
  ...Object.entries(hints).map(
    ([name, body]) =>
      [
        `hint: ${name}`,
        body.length,
        () => hintForBody(body, isJson(body) ? 'envelope_required' : 'envelope_malformed', codec),
      ] as const,
  ),
  ['hint: JSON in `data`', jsonInData.length, () => hintForBody(jsonInData, 'decryption_failed', codec)],
  ['aes-encrypt', document.length, () => isJson(document) && codec.seal(atOnce(minifyJson(document)))],
  [
    'aes-decrypt',
    encryptedSlice.length,
    () =>
      isJson(encryptedSlice) &&
      codec.open(Buffer.from(atOnce(stringMember(encryptedSlice, 'encrypted_data')) ?? ''), noMemory),
  ],
  [
    'diagnosis of a ciphertext',
    encryptedText.length,
    () => findCause(encryptedText, credentials, secrets.key, secrets.iv),
  ],
  [
    'diagnosis of open brackets',
    encryptedBrackets.length,
    () => findCause(encryptedBrackets, credentials, secrets.key, secrets.iv),
  ],
  ['seal a response', testBody, () => codec.seal(testDocument)],
];

console.log(`${'step'.padEnd(44)}${'bytes'.padStart(9)}${'least'.padStart(10)}${'most'.padStart(10)}`);
for (const [name, bytes, work] of steps) {
  const times = Array.from({ length: 2 * runs }, () => {
    const before = performance.now();
    work();
    return performance.now() - before;
  }).slice(runs);
  const shown = [Math.min(...times), Math.max(...times)].map((time) => `${time.toFixed(2)} ms`.padStart(10)).join('');
  console.log(`${name.padEnd(44)}${bytes.toLocaleString('en-US').padStart(9)}${shown}`);
}

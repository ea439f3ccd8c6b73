import { createCipheriv } from 'node:crypto';
import * as fc from 'fast-check';
import { mutated, mutations } from '../mutation.ts';
import { encrypted, type Secrets } from './oracle.ts';
import { anyCharacter } from '../../../test/support/property.ts';

function oneOf<T>(groups: readonly (readonly T[])[]): fc.Arbitrary<T> {
  return fc.constantFrom(...groups.flat());
}

/** A plaintext as bytes: mostly JSON, sometimes almost JSON. */
export const plaintexts: fc.Arbitrary<string> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.json({ maxDepth: 2, stringUnit: anyCharacter }).map((json) => Buffer.from(json).toString('latin1')),
  },
  {
    weight: 3,
    arbitrary: oneOf([
      ['{}', '[]', '0', 'null', '""', ' {"a":1}\n', '{"amount": 10.50}', '{"note":"\xc3\xa9"}'],
      ['', '\xef\xbb\xbf{}', '{"note":"\xe9"}', "{'a':1}", '{"a":1}x', 'NaN', '01', '"\n"', '{"a":1,}', '\0'],
    ]),
  },
  { weight: 1, arbitrary: fc.nat(3_000).map((depth) => '['.repeat(depth) + ']'.repeat(depth)) },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('latin1')) },
);

/** Ways to pad a plaintext. All but the first are wrong, or wrong most of the time. */
const paddings: fc.Arbitrary<(plaintext: Buffer, secrets: Secrets) => Buffer> = fc.oneof(
  { weight: 8, arbitrary: fc.constant((plaintext: Buffer, secrets: Secrets) => encrypted(secrets, plaintext)) },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.nat(255), fc.nat(32)).map(([byte, count]) => (plaintext: Buffer, secrets: Secrets) => {
      const padded = Buffer.concat([plaintext, Buffer.alloc(count, byte)]);
      const whole = Buffer.concat([padded, Buffer.alloc((16 - (padded.length % 16)) % 16, byte)]);
      const cipher = createCipheriv('aes-256-cbc', secrets.key, secrets.iv).setAutoPadding(false);
      return Buffer.concat([cipher.update(whole), cipher.final()]);
    }),
  },
);

/** Ways to write a ciphertext. The first three are correct. */
const writings: readonly ((ciphertext: Buffer) => string)[] = [
  (bytes) => bytes.toString('hex'),
  (bytes) => bytes.toString('base64'),
  (bytes) => bytes.toString('hex').toUpperCase(),
  (bytes) => bytes.toString('hex').replaceAll(/[a-f]./g, (pair) => pair.toUpperCase()),
  (bytes) => bytes.toString('base64url'),
  (bytes) => bytes.toString('base64').replace(/=+$/, ''),
  (bytes) => `${bytes.toString('base64')}=`,
  (bytes) => bytes.toString('base64').replace(/(.{20})/, '$1\\n'),
  (bytes) => bytes.toString('base64').replaceAll('/', '\\/'),
  (bytes) => bytes.toString('hex').replaceAll(/[0-4]/g, (digit) => `\\u003${digit}`),
  (bytes) => Buffer.from(bytes.toString('base64')).toString('hex'),
  (bytes) => Buffer.from(bytes.toString('hex')).toString('base64'),
  (bytes) => bytes.toString('hex').slice(1),
  (bytes) => bytes.toString('hex', 1),
  (bytes) => bytes.toString('hex').replaceAll('0', '\\u0130'),
  (bytes) => bytes.toString('hex').replaceAll('0', '\xc4\xb0'),
  (bytes) => ` ${bytes.toString('hex')}`,
  (bytes) => bytes.toString('latin1').replaceAll(/["\\]/g, ' '),
];

/** Ways to put a string into JSON. The first four are envelopes. */
const shapes: readonly ((data: string) => string)[] = [
  (data) => `{"data":"${data}"}`,
  (data) => `{"data":"${data}"}`,
  (data) => ` \r\n\t{ "data"\n:\t"${data}" \r}\n `,
  (data) => `{"\\u0064ata":"${data}"}`,
  (data) => `{"data":"${data}","data":"${data}"}`,
  (data) => `{"data":1,"data":"${data}"}`,
  (data) => `{"data":"${data}","x":1}`,
  (data) => `{"x":1,"data":"${data}"}`,
  (data) => `{"data":"${data}","__proto__":null}`,
  (data) => `{"__proto__":{"data":"${data}"}}`,
  (data) => `{"data":{"data":"${data}"}}`,
  (data) => `{"data":["${data}"]}`,
  (data) => `[{"data":"${data}"}]`,
  (data) => `{"Data":"${data}"}`,
  (data) => `{'data':'${data}'}`,
  (data) => `{data:"${data}"}`,
  (data) => `{"data":"${data}",}`,
  (data) => `{"data":"${data}"}{"data":"${data}"}`,
  (data) => `\xef\xbb\xbf{"data":"${data}"}`,
  (data) => `\xa0{"data":"${data}"}`,
  (data) => `/**/{"data":"${data}"}`,
  (data) => `{"data":null}${data.slice(0, 1)}`,
  (data) => `"${data}"`,
  (data) => `{"data\0":"${data}"}`,
  (data) => '{"data":'.repeat(2_000) + `"${data}"` + '}'.repeat(2_000),
];

/** An item of a list, most often one of the first `good` items. */
function oftenFirst<T>(list: readonly T[], good: number): fc.Arbitrary<T> {
  return fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...list.slice(0, good)) },
    { weight: 1, arbitrary: fc.constantFrom(...list) },
  );
}

/** Bodies that are envelopes for one of the secrets, or almost envelopes. */
export function envelopes(secrets: readonly Secrets[]): fc.Arbitrary<string> {
  return fc
    .tuple(plaintexts, paddings, fc.constantFrom(...secrets), oftenFirst(writings, 3), oftenFirst(shapes, 4), mutations)
    .map(([plaintext, pad, secret, write, shape, changes]) =>
      mutated(shape(write(pad(Buffer.from(plaintext, 'latin1'), secret))), changes),
    );
}

/** A correct envelope. */
export function goodEnvelope(secrets: Secrets): fc.Arbitrary<string> {
  return fc
    .tuple(fc.json({ maxDepth: 2 }), fc.constantFrom<'hex' | 'base64'>('hex', 'base64'))
    .map(([json, encoding]) => `{"data":"${encrypted(secrets, Buffer.from(json)).toString(encoding)}"}`);
}

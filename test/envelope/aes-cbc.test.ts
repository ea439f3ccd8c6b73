import { createCipheriv, createDecipheriv } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AesCbc, encryptedLength, isWholeBlocks } from '../../src/envelope/aes-cbc.ts';
import { cipher, credentials, credentialsOf, iv, key, openssl, otherCredentials } from './fixtures.ts';
import { runs } from '../support/property.ts';

/** Encrypts whole blocks. If there is padding, the caller has included it in the blocks. */
function encryptBlocks(blocks: Buffer): Buffer {
  const cipher = createCipheriv('aes-256-cbc', key, iv).setAutoPadding(false);
  return Buffer.concat([cipher.update(blocks), cipher.final()]);
}

describe('NIST SP 800-38A, CBC-AES256', () => {
  const vectorCipher = new AesCbc(
    credentialsOf(
      Buffer.from('603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4', 'hex'),
      Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex'),
    ),
  );
  const plaintext = Buffer.from(
    '6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51' +
      '30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710',
    'hex',
  );
  const ciphertext = Buffer.from(
    'f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d' +
      '39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b',
    'hex',
  );

  test('F.2.5: encryption yields the four blocks and a block of padding', () => {
    const encrypted = vectorCipher.encrypt(plaintext);
    expect(encrypted.subarray(0, 64)).toEqual(ciphertext);
    expect(encrypted).toHaveLength(80);
    expect(vectorCipher.decrypt(encrypted)).toEqual({ plaintext, paddingOk: true });
  });

  test('F.2.6: decryption yields the four blocks, which have no padding', () => {
    expect(vectorCipher.decrypt(ciphertext)).toEqual({ plaintext, paddingOk: false });
  });
});

describe('encrypt', () => {
  test.each([
    [0, 16],
    [1, 16],
    [15, 16],
    [16, 32],
    [17, 32],
    [31, 32],
    [32, 48],
    [33, 48],
  ])('turns %i bytes into %i, as openssl does', (length, encrypted) => {
    const plaintext = Buffer.alloc(length, 'p');
    const ciphertext = cipher.encrypt(plaintext);
    expect(ciphertext).toHaveLength(encrypted);
    expect(encryptedLength(length)).toBe(encrypted);
    expect(ciphertext).toEqual(openssl(key, iv, plaintext));
    expect(cipher.decrypt(ciphertext)).toEqual({ plaintext, paddingOk: true });
  });

  test('agrees with openssl on any key, IV and plaintext, in both directions', () => {
    const bytes = (length: number): fc.Arbitrary<Uint8Array> => fc.uint8Array({ minLength: length, maxLength: length });
    fc.assert(
      fc.property(bytes(32), bytes(16), fc.uint8Array({ maxLength: 200 }), (key, iv, array) => {
        const cipher = new AesCbc(credentialsOf(key, iv));
        const plaintext = Buffer.from(array);
        const ciphertext = openssl(key, iv, plaintext);
        expect(cipher.encrypt(plaintext)).toEqual(ciphertext);
        expect(cipher.decrypt(ciphertext)).toEqual({ plaintext, paddingOk: true });
      }),
      { numRuns: runs(50) },
    );
  });
});

describe('encryptor', () => {
  test('yields in pieces the same bytes as encrypt', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 40 })), (arrays) => {
        const chunks = arrays.map((array) => Buffer.from(array));
        const encryptor = cipher.encryptor();
        const pieces = [...chunks.map((chunk) => encryptor.update(chunk)), encryptor.final()];
        expect(Buffer.concat(pieces)).toEqual(cipher.encrypt(Buffer.concat(chunks)));
      }),
    );
  });
});

describe('one cipher for many messages', () => {
  /** A sequence of operations. Their ciphertexts are valid, broken, or not whole blocks. */
  const bytes = (maxLength: number): fc.Arbitrary<Buffer> =>
    fc.uint8Array({ maxLength }).map((array) => Buffer.from(array));
  const blocks = fc
    .array(fc.uint8Array({ minLength: 16, maxLength: 16 }), { minLength: 1, maxLength: 5 })
    .map((arrays) => Buffer.concat(arrays));
  const step = fc.oneof(
    fc.record({ act: fc.constant('encrypt' as const), input: bytes(70) }),
    fc.record({ act: fc.constant('decrypt' as const), input: bytes(70).map((plaintext) => oneShot(plaintext)) }),
    fc.record({ act: fc.constant('decrypt' as const), input: fc.oneof(blocks, bytes(70)) }),
    fc.record({ act: fc.constant('stream' as const), input: bytes(70) }),
  );

  function oneShot(plaintext: Buffer): Buffer {
    const cipher = createCipheriv('aes-256-cbc', key, iv);
    return Buffer.concat([cipher.update(plaintext), cipher.final()]);
  }

  /** The result of decrypting the ciphertext and removing its padding with a new decipher; undefined if Node reports an error. */
  function oneShotDecrypted(ciphertext: Buffer): Buffer | undefined {
    const decipher = createDecipheriv('aes-256-cbc', key, iv);
    try {
      return Buffer.concat([decipher.update(ciphertext), decipher.final()]);
    } catch {
      return undefined;
    }
  }

  test('has the same results as a new cipher for each message', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 2, maxLength: 12 }), (steps) => {
        const cipher = new AesCbc(credentials);
        for (const { act, input } of steps) {
          if (act === 'encrypt') {
            expect(cipher.encrypt(input)).toEqual(oneShot(input));
          } else if (act === 'stream') {
            // Abandon an encryption in the middle, as happens when a client disconnects.
            expect(cipher.encryptor().update(input)).toEqual(
              oneShot(input).subarray(0, input.length - (input.length % 16)),
            );
          } else {
            const decrypted = cipher.decrypt(input);
            const expected = oneShotDecrypted(input);
            if (!isWholeBlocks(input)) expect(decrypted).toBe('length');
            else if (expected === undefined) expect(decrypted).toMatchObject({ paddingOk: false });
            else expect(decrypted).toEqual({ plaintext: expected, paddingOk: true });
          }
        }
      }),
      { numRuns: runs(1_000) },
    );
  });

  test('does not change its input', () => {
    const plaintext = Buffer.from('{"amount":1000}');
    const ciphertext = oneShot(plaintext);
    cipher.decrypt(ciphertext);
    cipher.encrypt(plaintext);
    expect(plaintext.toString()).toBe('{"amount":1000}');
    expect(ciphertext).toEqual(oneShot(plaintext));
  });

  test('returns new memory for each message', () => {
    const first = cipher.encrypt(Buffer.from('first'));
    const copy = Buffer.from(first);
    cipher.encrypt(Buffer.from('second'));
    expect(first).toEqual(copy);
    const opened = cipher.decrypt(first);
    cipher.decrypt(cipher.encrypt(Buffer.from('second')));
    expect(opened).toEqual({ plaintext: Buffer.from('first'), paddingOk: true });
  });
});

describe('decrypt', () => {
  test.each([0, 1, 15, 17, 31, 33])('refuses %i bytes, which are not whole blocks', (length) => {
    expect(isWholeBlocks(Buffer.alloc(length))).toBe(false);
    expect(cipher.decrypt(Buffer.alloc(length))).toBe('length');
  });

  test.each([16, 32, 48])('accepts %i bytes, which are whole blocks', (length) => {
    expect(isWholeBlocks(Buffer.alloc(length))).toBe(true);
    expect(cipher.decrypt(Buffer.alloc(length))).not.toBe('length');
  });

  test('accepts every correct padding', () => {
    for (let padding = 1; padding <= 16; padding += 1) {
      const padded = Buffer.alloc(32, 0xee).fill(padding, 32 - padding);
      expect(cipher.decrypt(encryptBlocks(padded))).toEqual({
        plaintext: Buffer.alloc(32 - padding, 0xee),
        paddingOk: true,
      });
    }
  });

  test.each([0, 17, 32, 127, 128, 255])('refuses a block that ends in the byte %i', (last) => {
    const padded = Buffer.alloc(32, last);
    expect(cipher.decrypt(encryptBlocks(padded))).toEqual({ plaintext: padded, paddingOk: false });
  });

  test('refuses a padding in which any single byte is wrong', () => {
    for (let padding = 2; padding <= 16; padding += 1) {
      for (let wrong = 16 - padding; wrong < 15; wrong += 1) {
        const padded = Buffer.alloc(16, 0xee).fill(padding, 16 - padding);
        padded.writeUInt8(padded.readUInt8(wrong) ^ 0x80, wrong);
        expect(cipher.decrypt(encryptBlocks(padded))).toEqual({ plaintext: padded, paddingOk: false });
      }
    }
  });

  test('refuses padding to blocks of 32 bytes, as some PHP code writes it', () => {
    for (let length = 0; length < 32; length += 1) {
      const padding = 32 - length;
      const padded = Buffer.alloc(32, 'p').fill(padding, length);
      expect(cipher.decrypt(encryptBlocks(padded))).toMatchObject({ paddingOk: padding <= 16 });
    }
  });

  test('reports bad padding, instead of throwing, with another key', () => {
    const decrypted = new AesCbc(otherCredentials).decrypt(cipher.encrypt(Buffer.from('{"amount":1000}')));
    expect(decrypted).toMatchObject({ paddingOk: false });
  });
});

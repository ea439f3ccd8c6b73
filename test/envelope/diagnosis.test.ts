import { describe, expect, test } from 'vitest';
import { diagnose } from '../../src/envelope/diagnosis.ts';
import { encrypt, iv, json, key, random, slips } from './slips.ts';

describe('the diagnosis names', () => {
  test.each(slips)('%s', (_, ciphertext, cause) => {
    expect(diagnose(ciphertext, key, iv)).toContain(cause);
  });

  test('a key or an IV that was decoded from hex', () => {
    const hexKey = '00112233445566778899aabbccddeeff';
    const options = { algorithm: 'aes-128-cbc', usedKey: Buffer.from(hexKey, 'hex'), usedIv: random };
    expect(diagnose(encrypt(json, options), hexKey, random.toString('hex'))).toContain(
      'the key was decoded from hex, so that AES-128 was used',
    );
    const decodedIv = { usedKey: Buffer.from(hexKey), usedIv: random };
    expect(diagnose(encrypt(json, decodedIv), hexKey, random.toString('hex'))).toContain('the IV was decoded from hex');
  });

  test('neither the key, the IV nor the plaintext', () => {
    for (const ciphertext of [
      encrypt(Buffer.from(json, 'latin1')),
      encrypt('amount=1'),
      encrypt(json, { usedIv: random }),
    ]) {
      const hint = diagnose(ciphertext, key, iv);
      for (const secret of [key, iv, 'amount', '1000']) expect(hint).not.toContain(secret);
    }
  });
});

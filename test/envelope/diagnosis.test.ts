import { describe, expect, test } from 'vitest';
import { diagnose } from '../../src/envelope/hints/diagnosis.ts';
import { encrypt, iv, json, key, random, slips } from './slips.ts';

describe('the diagnosis names', () => {
  test.each(slips)('%s', (_, ciphertext, cause) => {
    expect(diagnose(ciphertext, key, iv)).toContain(cause);
  });

  test('a key or an IV that was decoded from hex', () => {
    const hexKey = '00112233445566778899aabbccddeeff';
    const options = { algorithm: 'aes-128-cbc', usedKey: Buffer.from(hexKey, 'hex'), usedIv: random };
    expect(diagnose(encrypt(json, options), hexKey, random.toString('hex'))).toContain(
      'the key was decoded from hex, so AES-128 was used',
    );
    const decodedIv = { usedKey: Buffer.from(hexKey), usedIv: random };
    expect(diagnose(encrypt(json, decodedIv), hexKey, random.toString('hex'))).toContain('the IV was decoded from hex');
  });

  test('neither the key nor the IV, and at most 24 characters of the plaintext', () => {
    for (const ciphertext of [
      encrypt(Buffer.from(json, 'latin1')),
      encrypt(`x${json}x${'y'.repeat(100)}`),
      encrypt('\u{1f600}'.repeat(40)),
      encrypt(json, { usedIv: random }),
    ]) {
      const hint = diagnose(ciphertext, key, iv);
      for (const secret of [key, iv]) expect(hint).not.toContain(secret);
      const [quoted = '""'] = /"(?:[^"\\]|\\.)*"/.exec(hint) ?? [];
      expect(Array.from(JSON.parse(quoted) as string).length).toBeLessThanOrEqual(24);
    }
  });

  test('JSON after other bytes, for which it tries at most four places, because each costs a check of the whole', () => {
    expect(diagnose(encrypt(`[[[[${json}`), key, iv)).toContain('4 bytes precede the JSON');
    expect(diagnose(encrypt(`[[[[[${json}`), key, iv)).not.toContain('stand before');
  });

  test('a long ciphertext in about the time of a short one', () => {
    const other = { usedKey: Buffer.alloc(32, 'k') };
    const spent = (ciphertext: Buffer): number => {
      const from = process.cpuUsage();
      for (let i = 0; i < 5; i += 1) diagnose(ciphertext, key, iv);
      return process.cpuUsage(from).user;
    };
    spent(encrypt(json, other));
    expect(spent(encrypt('x'.repeat(32_000), other))).toBeLessThan(10 * spent(encrypt(json, other)));
  });
});

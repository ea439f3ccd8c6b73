import { createDecipheriv, createSecretKey } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { createMasterKey, parseMasterKeys } from '../../src/accounts/master-key.ts';
import { isWrapped, Vault, type Place } from '../../src/accounts/vault.ts';

const hex = '000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f';
const base64 = Buffer.from(hex, 'hex').toString('base64');
const otherHex = 'ff'.repeat(32);
const place: Place = { account: 'acme', environment: 'test', member: 'key' };
const text = 'k7Jq2vXw9RtB4mNz8LpC1sDfG5hYeU3ä';

function vaultOf(...keys: readonly string[]): Vault {
  return new Vault(parseMasterKeys(keys.join('\n')) ?? []);
}

describe('master keys', () => {
  test.each([
    ['hex', hex],
    ['hex in upper case', hex.toUpperCase()],
    ['base64', base64],
    ['a newline at the end', `${base64}\n`],
  ])('are 32 bytes: %s', (_, written) => {
    expect(parseMasterKeys(written)?.map(({ key }) => key?.export().toString('hex'))).toEqual([hex]);
  });

  test('may be several, one per line', () => {
    const keys = parseMasterKeys(` ${base64}\r\n\n  ${otherHex}\n`);
    expect(keys?.map(({ key }) => key?.export().toString('hex'))).toEqual([hex, otherHex]);
  });

  test.each([
    ['nothing', ''],
    ['31 bytes', Buffer.alloc(31).toString('base64')],
    ['33 bytes', Buffer.alloc(33).toString('base64')],
    ['63 digits', hex.slice(1)],
    ['65 digits', `${hex}0`],
    ['base64 without padding', base64.replace('=', '')],
    ['a second line that is not a key', `${hex}\nx`],
  ])('may not be %s', (_, written) => {
    expect(parseMasterKeys(written)).toBeUndefined();
  });
});

describe('a wrapped text', () => {
  const vault = vaultOf(hex);
  const sealed = vault.wrap(text, place);

  test('is unwrapped for its own place, and differs each time', () => {
    expect(sealed).toMatch(/^sealed:v1:[A-Za-z0-9_-]+$/);
    expect(isWrapped(sealed)).toBe(true);
    expect(vault.unwrap(sealed, place)).toBe(text);
    expect(vault.wrap(text, place)).not.toBe(sealed);
  });

  test('is a nonce, AES-256-GCM ciphertext and a tag, with the place as additional data', () => {
    const bytes = Buffer.from(sealed.slice('sealed:v1:'.length), 'base64url');
    const cipher = createDecipheriv('aes-256-gcm', Buffer.from(hex, 'hex'), bytes.subarray(0, 12));
    cipher.setAAD(Buffer.from('envelope-sidecar\0v1\0acme\0test\0key'));
    cipher.setAuthTag(bytes.subarray(-16));
    expect(cipher.update(bytes.subarray(12, -16)).toString() + cipher.final('utf8')).toBe(text);
  });

  test.each<[string, Partial<Place>]>([
    ['for another account', { account: 'acme2' }],
    ['in another environment', { environment: 'live' }],
    ['as another member', { member: 'iv' }],
  ])('is refused %s', (_, elsewhere) => {
    expect(() => vault.unwrap(sealed, { ...place, ...elsewhere })).toThrow(
      expect.objectContaining({ code: 'master_key_wrong' }),
    );
  });

  test('is refused with another master key', () => {
    expect(() => vaultOf(otherHex).unwrap(sealed, place)).toThrow(
      'the sealed key of account acme in test does not open: it was sealed with another master key, or for another account, environment or member',
    );
  });

  test('is refused without a master key', () => {
    expect(() => vaultOf().unwrap(sealed, place)).toThrow(
      'the sealed key of account acme in test needs the master key: set accounts.masterKey',
    );
  });

  test('is refused if a bit was changed or a part is missing', () => {
    const bytes = Buffer.from(sealed.slice('sealed:v1:'.length), 'base64url');
    for (let i = 0; i < bytes.length; i++) {
      const damaged = Buffer.from(bytes);
      damaged.writeUInt8(damaged.readUInt8(i) ^ 1, i);
      expect(() => vault.unwrap(`sealed:v1:${damaged.toString('base64url')}`, place)).toThrow('does not open');
      const cut = bytes.subarray(0, i).toString('base64url');
      expect(() => vault.unwrap(`sealed:v1:${cut}`, place)).toThrow('does not open');
    }
  });
});

test.each(['!', ' ', '=', '\n'])('a wrapped text followed by %j is refused', (more) => {
  const vault = vaultOf(hex);
  expect(() => vault.unwrap(vault.wrap(text, place) + more, place)).toThrow('does not open');
});

test('the first of several master keys wraps, and each of them unwraps', () => {
  const wrappedBefore = vaultOf(hex).wrap(text, place);
  const both = vaultOf(otherHex, hex);
  expect(both.unwrap(wrappedBefore, place)).toBe(text);
  expect(vaultOf(otherHex).unwrap(both.wrap(text, place), place)).toBe(text);
});

test('without a master key texts stay in the clear, and every vault reads such texts', () => {
  expect(vaultOf().wrap(text, place)).toBe(text);
  expect(vaultOf(hex).unwrap(text, place)).toBe(text);
});

test('a text is current if it is wrapped with the first master key', () => {
  const [one, both, none] = [vaultOf(hex), vaultOf(otherHex, hex), vaultOf()];
  const wrapped = one.wrap(text, place);
  expect([one, both, none].map((each) => each.isCurrent(wrapped, place))).toEqual([true, false, false]);
  expect([one, both, none].map((each) => each.isCurrent(text, place))).toEqual([false, false, true]);
  expect(one.isCurrent(wrapped, { ...place, member: 'iv' })).toBe(false);
});

test('a vault knows whether it has the master key of another vault', () => {
  const both = vaultOf(otherHex, hex);
  const held = [otherHex, hex, '00'.repeat(32)].map((key) => both.holds(vaultOf(key), 'test'));
  expect(held).toEqual(['first', 'other', 'none']);
  expect([both.holds(vaultOf(), 'test'), vaultOf().holds(both, 'test')]).toEqual(['none', 'none']);
});

describe('a vault with a master key for test only', () => {
  const forTest = [{ ...createMasterKey(createSecretKey(hex, 'hex')), environment: 'test' as const }];
  const vault = new Vault(forTest);
  const inLive = { ...place, environment: 'live' } as const;

  test('wraps and unwraps in test', () => {
    expect(vault.unwrap(vault.wrap(text, { ...place, environment: 'test' }), { ...place, environment: 'test' })).toBe(
      text,
    );
    expect([vault.isFor('test'), vault.isFor('live')]).toEqual([true, false]);
  });

  test('neither wraps nor unwraps in live, although the key would fit', () => {
    const message = 'credentials in live need the master key of live: set accounts.masterKey.live';
    const missing = expect.objectContaining({ code: 'master_key_missing', message }) as Error;
    expect(() => vault.wrap(text, inLive)).toThrow(missing);
    expect(() => vault.unwrap(vaultOf(hex).wrap(text, inLive), inLive)).toThrow(missing);
    expect(vault.holds(vaultOf(hex), 'live')).toBe('none');
  });
});

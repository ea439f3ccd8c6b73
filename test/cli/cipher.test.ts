import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { encodings } from '../../src/envelope/encoding.ts';
import { iv, key, openssl } from '../envelope/fixtures.ts';
import { runCommand, type Ended } from '../support/cli.ts';

const env = { SIDECAR_KEY: key.toString(), SIDECAR_IV: iv.toString() };
const directory = mkdtempSync(join(tmpdir(), 'cipher-test-'));
afterAll(() => rmSync(directory, { recursive: true }));

function file(name: string, content: string): string {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
}

const sealText = (input: string | Buffer, encoding: 'hex' | 'base64' = 'hex'): Promise<Ended> =>
  runCommand(['seal', '--encoding', encoding], { stdin: input, env });
const openText = (input: string | Buffer): Promise<Ended> => runCommand(['open'], { stdin: input, env });

const document = Buffer.from(' {"amount": 10.50, "note": "é"}\n');

describe('seal', () => {
  test.each(encodings)('prints an envelope in %s that openssl decrypts to the same bytes', async (encoding) => {
    const { code, stdout, stderr } = await sealText(document, encoding);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^\{"data":"[^"\n]+"\}\n$/);
    const { data } = JSON.parse(stdout) as { data: string };
    expect(openssl(key, iv, Buffer.from(data, encoding), '-d')).toEqual(document);
  });

  test.each([
    ['text', 'hello'],
    ['nothing', ''],
    ['Latin-1', Buffer.from('"é"', 'latin1')],
  ])('refuses %s, which is not JSON', async (_, input) => {
    expect(await sealText(input)).toEqual({
      code: 1,
      stdout: '',
      stderr: 'seal: stdin is not a JSON document in UTF-8\n',
    });
  });
});

describe('open', () => {
  const ciphertext = openssl(key, iv, document);

  test.each([
    ['an envelope in hex', `{"data":"${ciphertext.toString('hex')}"}`],
    ['an envelope in base64 with a newline after it', `{"data":"${ciphertext.toString('base64')}"}\n`],
    ['an envelope with white space before it', `\n {"data": "${ciphertext.toString('hex')}"}`],
    ['a bare string of hex', ciphertext.toString('hex')],
    ['a bare string of base64 with a newline after it', `${ciphertext.toString('base64')}\r\n`],
  ])('prints the plaintext of %s byte for byte', async (_, input) => {
    expect(await openText(input)).toEqual({ code: 0, stdout: document.toString(), stderr: '' });
  });

  test.each([
    ['{"amount":1}', 'stdin has no "data" member: an envelope is {"data":"<ciphertext>"}'],
    ['{"data":1}', 'stdin is not an envelope: expected {"data":"<ciphertext>"} without other members'],
    ['{"data":"00"', 'stdin is not an envelope: expected {"data":"<ciphertext>"} without other members'],
    ['abc', 'cannot decrypt: odd number of hex digits'],
    ['{"data":"abc"}', 'cannot decrypt: odd number of hex digits'],
    ['', 'cannot decrypt: the string is empty: your encryption failed'],
    [
      '00',
      'cannot decrypt: the ciphertext is not a multiple of 16 bytes: perhaps it was cut, was made in a mode other than CBC, such as GCM or CTR, or is not a ciphertext',
    ],
    [
      openssl(key, iv, Buffer.alloc(16), '-nopad').toString('hex'),
      'the padding is invalid: the key is wrong, or the ciphertext is damaged or not padded with PKCS#7',
    ],
    [
      openssl(key, iv, Buffer.from('hello')).toString('hex'),
      'decrypted, but the plaintext is not JSON: the IV is wrong, or the sealed text was not JSON',
    ],
  ])('explains what is wrong with %j', async (input, message) => {
    expect(await openText(input)).toEqual({ code: 1, stdout: '', stderr: `open: ${message}\n` });
  });
});

describe('the credentials of seal and open', () => {
  const sealed = `{"data":"${openssl(key, iv, Buffer.from('1')).toString('hex')}"}\n`;
  const keyFile = file('key', `${key.toString()}\n`);
  const ivFile = file('iv', `${iv.toString()}\r\n`);

  test('are read from files, without the newline at the end', async () => {
    const outcome = await runCommand(['seal', '--key-file', keyFile, '--iv-file', ivFile], { stdin: '1' });
    expect(outcome).toEqual({ code: 0, stdout: sealed, stderr: '' });
  });

  test('in files take precedence over the environment', async () => {
    const wrong = { SIDECAR_KEY: 'x'.repeat(32), SIDECAR_IV: 'x'.repeat(16) };
    const outcome = await runCommand(['open', '--key-file', keyFile, '--iv-file', ivFile], {
      stdin: sealed,
      env: wrong,
    });
    expect(outcome.stdout).toBe('1');
  });

  test('can be in base64', async () => {
    const base64 = { SIDECAR_KEY: key.toString('base64'), SIDECAR_IV: iv.toString('base64') };
    const outcome = await runCommand(['open', '--format', 'base64'], { stdin: sealed, env: base64 });
    expect(outcome.stdout).toBe('1');
  });

  test.each([
    [{}, 2, 'no key: use --key-file or set SIDECAR_KEY'],
    [{ SIDECAR_KEY: env.SIDECAR_KEY }, 2, 'no IV: use --iv-file or set SIDECAR_IV'],
    [{ ...env, SIDECAR_KEY: 'secret' }, 1, 'the key must be 32 bytes of UTF-8'],
    [
      { SIDECAR_KEY: `${env.SIDECAR_KEY}\n`, SIDECAR_IV: 'secret' },
      1,
      'the key must be 32 bytes of UTF-8; the iv must be 16 bytes of UTF-8 in its first 16 characters',
    ],
  ])('are refused without being repeated: case %#', async (env, code, message) => {
    expect(await runCommand(['open'], { stdin: sealed, env })).toEqual({
      code,
      stdout: '',
      stderr: `open: ${message}\n`,
    });
  });

  test('lose at most one newline at the end', async () => {
    const twoLines = file('two-lines', `${key.toString()}\n\n`);
    const outcome = await runCommand(['open', '--key-file', twoLines, '--iv-file', ivFile], { stdin: sealed });
    expect(outcome).toMatchObject({ code: 1, stderr: 'open: the key must be 32 bytes of UTF-8\n' });
  });

  test('must be in files that exist', async () => {
    const missing = join(directory, 'missing');
    const outcome = await runCommand(['seal', '--key-file', missing, '--iv-file', ivFile], { stdin: '1' });
    expect(outcome).toMatchObject({ code: 1, stderr: `seal: cannot read ${missing}: ENOENT\n` });
  });
});

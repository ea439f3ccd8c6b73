import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { encrypted, send } from '../support/client.ts';
import { acmeWith, startGateway } from '../support/gateway.ts';
import { acmeLive, acmeTest, codecOf, encryptionOf, keys, noMemory } from '../support/sidecar.ts';
import { blocks, runSnippet } from '../support/snippets.ts';

const file = 'docs/merchants.md';
const page = readFileSync(file, 'utf8');
const demo = { key: 'demo-key-of-acme-not-a-secret-32', iv: 'demo-iv-of-acme-' };

/** The rows of the table after a marker or heading, without the header row and without backquotes. */
function rowsAfter(start: string): string[][] {
  const [, after = ''] = page.split(start);
  const [table = ''] = /^\|[^]*?\n\n/m.exec(after) ?? [];
  const lines = table.trim().split('\n').slice(2);
  return lines.map((line) =>
    line
      .slice(1, -1)
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim()),
  );
}

/** The values in the table of test vectors, by the name in the first column. */
const vectors = new Map(rowsAfter('<!-- vectors:').map(([name = '', value = '']) => [name, value.replaceAll('`', '')]));

describe('the first screen of docs/merchants.md', () => {
  const [screen = ''] = page.split('\n## ');

  test('has the picture, the headers and the test vectors', () => {
    expect(screen.split('\n').length).toBeLessThanOrEqual(60);
    for (const part of ['───►', '<!-- headers:', '<!-- vectors:']) expect(screen).toContain(part);
  });

  test('has the test vector that everybody compares with', () => {
    expect(vectors.get('`{"amount":1500}` in hex')).toBe('b1cfe5cf79092760fa94b1d5aa17a154');
    expect([vectors.get('Encryption key'), vectors.get('IV')]).toEqual([demo.key, demo.iv]);
  });

  const shown = [...vectors].flatMap(([name, value]) => {
    const [, plaintext, encoding] = /^`(.*)` in (hex|base64)$/.exec(name) ?? [];
    return plaintext === undefined ? [] : [[plaintext, encoding as 'hex' | 'base64', value] as const];
  });

  test.each(shown)(
    'has test vectors on which openssl and the sidecar agree: %s in %s',
    (plaintext, encoding, value) => {
      expect(shown).toHaveLength(4);
      expect(encrypted(demo, plaintext).toString(encoding)).toBe(value);
      expect(codecOf(demo, encoding).seal(Buffer.from(plaintext))).toBe(JSON.stringify({ data: value }));
      expect(codecOf(demo).open(Buffer.from(value), noMemory)).toEqual(Buffer.from(plaintext));
    },
  );

  test('has the fingerprint that openssl computes', () => {
    const { stdout } = spawnSync('openssl', ['sha256', '-r'], { input: demo.key + demo.iv, encoding: 'utf8' });
    expect(vectors.get('Fingerprint')).toBe(stdout.slice(0, 16));
    expect(screen).toContain(`Envelope-Credentials: ${stdout.slice(0, 16)}`);
  });

  test('shows a charge and its response as they are on the wire', () => {
    const sent = /\{"data":"(\w+)…"\} +◄ (\{.*?\}) /.exec(screen) ?? [];
    const received = /\{"data":"(\w+)…"\} +► (\{.*) …/.exec(screen) ?? [];
    expect(encrypted(demo, sent[2] ?? '').toString('hex')).toMatch(new RegExp(`^${sent[1]}`));
    // The page abbreviates the response, but a block does not depend on what follows it.
    const begin = encrypted(demo, `${received[2]} "transaction"}`.replace(': ', ':')).toString('hex');
    expect(begin.slice(0, 20)).toBe(received[1]?.slice(0, 20));
  });
});

test.each(['docs/merchants.md', 'docs/errors.md'])("%s has values, and no names of operators' settings", (file) => {
  const text = readFileSync(file, 'utf8');
  expect(text.match(/`?\b(?:limits|timeouts|routes|cipherTest|trustedProxies)\.\w+|sidecar\.yaml/g)).toBeNull();
});

/** The credentials before the rotation. Any pair would do; this is acme's live pair. */
const previous = acmeLive;
const until = Date.now() + 3_600_000;
const withOther = { previous: codecOf(previous), until };

test('a rotation works as the steps on the page describe', async () => {
  const [section = ''] = page.split('## Rotate the key and IV').slice(1);
  expect([...section.matchAll(/^(\d)\. /gm)].map(([, step]) => Number(step))).toEqual([1, 2, 3, 4, 5, 6, 7]);
  const [command = ''] = blocks(file, 'sh rotate');
  const named = async ({ key, iv }: { key: string; iv: string }): Promise<Record<string, string>> => ({
    'Envelope-Credentials': (await runSnippet(command, 'sh', { KEY: key, IV: `${iv}more` })).trim(),
  });
  const [newPair, oldPair] = [await named(acmeTest), await named(previous)];
  expect(newPair['Envelope-Credentials']).toBe(codecOf(acmeTest).fingerprint);

  const clock = { now: until - 1 };
  const encryption = encryptionOf(acmeTest, { grace: withOther });
  const { sidecar } = await startGateway({ accounts: [acmeWith(encryption)], clock: () => clock.now });
  const ask = (headers: Record<string, string>) => send(sidecar, 'GET /api/s2s/x', { key: keys.acme, headers });
  expect((await ask(newPair)).headers['envelope-credentials']).toBe('current');
  expect((await ask(oldPair)).headers['envelope-credentials']).toBe('previous');
  clock.now = until;
  expect((await ask(newPair)).status).toBe(200);
  expect(JSON.parse((await ask(oldPair)).body)).toMatchObject({ code: 'decryption_failed' });
});

test('the JavaScript of the page rejects every amount that was tampered with, of which a lenient reader takes one in ten', async () => {
  const [code = ''] = blocks(file, 'js run');
  const functions = code.split('async function call')[0] ?? '';
  const tamper = `
    const accepted = (read) => {
      let count = 0;
      for (let order = 0; order < 2_000; order += 1) {
        const reference = 'AB' + String(order).padStart(16, '0');
        const bytes = Buffer.from(JSON.parse(seal({ reference, amount: 1500 })).data, 'hex');
        bytes[16 + 11] ^= 0x08; // makes 9500 of 1500, and 16 bytes of the reference unreadable
        try {
          if (JSON.parse(read(bytes)).amount === 9500) count += 1;
        } catch {}
      }
      return count;
    };
    const lenient = (bytes) => {
      const decipher = createDecipheriv('aes-256-cbc', key, iv);
      return Buffer.concat([decipher.update(bytes), decipher.final()]).toString();
    };
    console.log(accepted((bytes) => open({ data: bytes.toString('hex') })), accepted(lenient));`;
  const printed = await runSnippet(functions + tamper, 'js', { KEY: demo.key, IV: demo.iv });
  const [strict, lenient] = printed.trim().split(' ').map(Number);
  expect(strict).toBe(0);
  expect((lenient ?? 0) / 2_000).toBeCloseTo(0.1, 1);
});

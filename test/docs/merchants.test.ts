import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { encrypted } from '../support/client.ts';
import { codecOf } from '../support/sidecar.ts';

const page = readFileSync('docs/merchants.md', 'utf8');
const demo = { key: 'demo-key-of-acme-not-a-secret-32', iv: 'demo-iv-of-acme-' };

/** The rows of the table behind a marker or heading, without the head; cells without backquotes. */
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

/** What the table of test vectors says, by its first column. */
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

  test.each(shown)('has vectors that openssl and the sidecar agree on: %s in %s', (plaintext, encoding, value) => {
    expect(shown).toHaveLength(4);
    expect(encrypted(demo, plaintext).toString(encoding)).toBe(value);
    expect(codecOf(demo, encoding).seal(Buffer.from(plaintext))).toBe(JSON.stringify({ data: value }));
    expect(codecOf(demo).open(Buffer.from(value))).toEqual(Buffer.from(plaintext));
  });

  test('has the fingerprint that openssl computes', () => {
    const { stdout } = spawnSync('openssl', ['sha256', '-r'], { input: demo.key + demo.iv, encoding: 'utf8' });
    expect(vectors.get('Fingerprint')).toBe(stdout.slice(0, 16));
    expect(screen).toContain(`Envelope-Credentials: ${stdout.slice(0, 16)}`);
  });

  test('shows a charge and its response as they are on the wire', () => {
    const sent = /\{"data":"(\w+)…"\} +◄ (\{.*?\}) /.exec(screen) ?? [];
    const received = /\{"data":"(\w+)…"\} +► (\{.*) …/.exec(screen) ?? [];
    expect(encrypted(demo, sent[2] ?? '').toString('hex')).toMatch(new RegExp(`^${sent[1]}`));
    // Blocks before the last do not depend on what follows.
    const begin = encrypted(demo, `${received[2]} "transaction"}`.replace(': ', ':')).toString('hex');
    expect(begin.slice(0, 20)).toBe(received[1]?.slice(0, 20));
  });
});

test.each(['docs/merchants.md', 'docs/errors.md'])("%s has values, and no names of operators' settings", (file) => {
  const text = readFileSync(file, 'utf8');
  expect(text.match(/`?\b(?:limits|timeouts|routes|cipherTest|trustedProxies)\.\w+|sidecar\.yaml/g)).toBeNull();
});

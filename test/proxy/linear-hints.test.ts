import { expect, test } from 'vitest';
import { ambiguousText } from '../../src/proxy/admit/ambiguity.ts';
import type { GatewaySnapshot } from '../../src/proxy/admit/snapshot.ts';
import { hintForBody, hintForHeaders, hintForTestBody } from '../../src/envelope/hints/hints.ts';
import { findPlaintextMistake } from '../../src/envelope/hints/plaintext-hints.ts';
import { codecOf, acmeTest } from '../support/sidecar.ts';

/** Pieces that the patterns of hints look for, and that a sender can repeat to make a long text. */
const pieces = [
  ...Array.from('=-+/ ":,;|$.[{(<a0x%\\\''),
  '\\n', '\\/', '0x', '0x0', '0x00,', '\\x41', '1,', '1, ', '00-', '00:', '00 ', '--', 'a=', '%41', '%e2', '//', '/.', '\u00e9', '\ufffd',
] as const; // prettier-ignore
const ends = ['x', '"', '\u0000'];
const starts = ['', '[', '"', 'eyJ'];

/** The CPU milliseconds that `work` takes. */
function cpu(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/** Milliseconds that a hint for 64 KiB may take, even on a busy machine. A hint that takes quadratic time needs thousands. */
const most = 400;

test.each(pieces)('a hint for a long text of %j takes time in proportion to its length', (piece) => {
  const codec = codecOf(acmeTest);
  for (const start of starts) {
    for (const end of ends) {
      const data = start + piece.repeat(Math.ceil(60_000 / piece.length)) + end;
      const body = Buffer.from(JSON.stringify({ data }));
      expect(cpu(() => void hintForBody(body, 'decryption_failed', codec))).toBeLessThan(most);
      const bytes = Buffer.from(data);
      for (const hint of [
        () => hintForBody(bytes, 'decryption_failed', codec),
        () => hintForTestBody(bytes, 'decrypt'),
        () => findPlaintextMistake(bytes),
        () => hintForHeaders(data.slice(0, 16_000), data.slice(0, 16_000)),
      ]) {
        expect(cpu(() => void hint())).toBeLessThan(most);
      }
    }
  }
});

test.each([...pieces, '\t', 'host:', 'chunked', ':chunked '])(
  'the hint for an ambiguous head with %j takes time in proportion to its length',
  (piece) => {
    const snapshot = { findEnvironment: () => ({ name: 'test' }) } as unknown as GatewaySnapshot;
    const long = piece.repeat(Math.ceil(16_000 / piece.length));
    const heads = [
      `GET /${long} HTTP/1.1\r\nHost: x`,
      `GET /?${long} HTTP/1.1\r\nHost: x`,
      `GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\nHost: x${long}x`,
      `GET / HTTP/1.1\r\nHost:${long}`,
      `GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:${long}x`,
    ];
    for (const head of heads) expect(cpu(() => void ambiguousText(head, snapshot))).toBeLessThan(most);
  },
);

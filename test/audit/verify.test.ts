import { spawnSync } from 'node:child_process';
import { createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { beginning, isSignedBy, lineAfter, publicText, readTies, type Link } from '../../src/audit/chain.ts';
import { readLines, type Line } from '../../src/audit/lines.ts';
import { verifyTrail, type Report, type VerifyOptions } from '../../src/audit/verify.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const newKey = (): KeyObject => generateKeyPairSync('ed25519').privateKey;
const [key, otherKey] = [newKey(), newKey()];

/** The members of an event that do not depend on its place in a chain. */
const event = (account: string) => ({
  at: '2026-11-21T10:00:00.000Z',
  actor: 'user:ana',
  action: 'key_issued',
  account,
  details: {},
});
const change = (to: KeyObject) => ({ ...event('none'), action: 'audit_key_changed', details: { key: publicText(to) } });

/** Appends events to the chain of the lines in `before`. */
function chained(events: readonly object[], signer?: KeyObject, before: readonly Buffer[] = []): Buffer[] {
  const lines = [...before];
  for (const each of events) lines.push(lineAfter(endOf(lines), each, signer));
  return lines;
}

function endOf(lines: readonly Buffer[]): Link {
  const last = lines.at(-1);
  return last === undefined ? beginning : { position: lines.length, hash: sha256Hex(last) };
}

const many = (count: number): object[] => Array.from({ length: count }, (_, i) => event(`account-${i}`));
const unsigned = chained(many(7));
const signed = chained([change(key), ...many(6)], key);

async function* each<Item>(items: readonly Item[]): AsyncIterable<Item> {
  yield* items;
}

const verify = (lines: readonly Buffer[], options: Partial<VerifyOptions> = {}): Promise<Report> =>
  verifyTrail(each(lines.map((bytes) => ({ bytes }))), { keys: [], anchors: [], ...options });

const faults = async (lines: readonly Buffer[], options?: Partial<VerifyOptions>): Promise<unknown[]> =>
  (await verify(lines, options)).problems.map(({ position, fault }) => `${position} ${fault}`);

/** A copy of the line in which the byte at `at` is different. */
function withByte(line: Buffer, at: number): Buffer {
  const copy = Buffer.from(line);
  copy[at] = copy[at] === 0x30 ? 0x31 : 0x30;
  return copy;
}

test('a line is JSON that ends with the hash of the line before it and its own signature', () => {
  const [first = Buffer.alloc(0), second = Buffer.alloc(0)] = signed;
  expect(Object.keys(JSON.parse(second.toString()) as object)).toEqual([
    'position',
    'at',
    'actor',
    'action',
    'account',
    'details',
    'prev',
    'sig',
  ]);
  expect(readTies(second)).toMatchObject({ position: 2, prev: sha256Hex(first) });
  const { sig = '' } = readTies(second) ?? {};
  expect(isSignedBy(second, sig, createPublicKey(key))).toBe(true);
  expect(isSignedBy(second, sig, otherKey)).toBe(false);
});

test('a key that is announced but cannot sign is ignored', async () => {
  const { privateKey } = generateKeyPairSync('x25519');
  const announced = chained(many(2), key, chained([change(privateKey)], key, signed));
  expect((await verify(announced)).problems).toEqual([]);
});

test('an untouched trail is whole: empty, unsigned, signed, signed from some event on, with a later key', async () => {
  const begun = chained([change(key), ...many(3)], key, unsigned);
  const rotated = chained([change(otherKey)], key, signed);
  const later = chained(many(3), otherKey, rotated);
  const whole = { problems: [], warnings: [] };
  expect(await verify([])).toEqual({ events: 0, signed: 0, ...whole });
  expect(await verify(unsigned)).toEqual({ events: 7, signed: 0, ...whole });
  const keys = [createPublicKey(key)];
  expect(await verify(signed, { keys })).toEqual({ events: 7, signed: 7, ...whole });
  expect(await verify(begun, { keys })).toEqual({
    events: 11,
    signed: 4,
    problems: [],
    warnings: ['events 1 to 7 are not signed: compare event 7 with an anchor'],
  });
  expect(await verify(later, { keys: [createPublicKey(otherKey)] })).toEqual({
    events: 11,
    signed: 11,
    problems: [],
    warnings: [expect.stringMatching(/^events up to 8 are signed by a key that was not given: /)],
  });
  for (const lines of [unsigned, signed]) {
    const anchors = lines.map((line, i) => ({ position: i + 1, hash: sha256Hex(line) }));
    expect((await verify(lines, { anchors })).problems).toEqual([]);
  }
});

test('events that were taken over from the previous version are reported, and announce no key', async () => {
  const older = { older: 1, ...event('x') };
  const begun = chained([change(key), older, older], key);
  const takenOver = 'were copied from the table "audit": nothing shows who wrote them';
  expect((await verify(begun)).warnings).toEqual([`events up to 3 ${takenOver}`]);
  const later = chained([event('y'), older, event('z')], key, begun);
  expect((await verify(later)).warnings).toEqual([`events up to 5 ${takenOver}`]);
  // Anyone who may write to the previous version's table can choose all members of an event.
  const named = chained([{ older: 2, ...change(otherKey) }, event('y')], key, later);
  expect(await verify(named, { keys: [createPublicKey(key)] })).toMatchObject({
    signed: 8,
    problems: [],
    warnings: [`events up to 7 ${takenOver}`],
  });
  expect(await faults(chained([event('y')], otherKey, named))).toEqual(['9 changed']);
});

describe.each([
  ['unsigned', unsigned],
  ['signed', signed],
])('in a trail that is %s', (name, lines) => {
  const at = (i: number): Buffer => lines[i] ?? Buffer.alloc(0);

  test('a changed byte is found, in whichever line and wherever in it', async () => {
    for (const [i, line] of lines.entries()) {
      // No later line can reveal that the last line was changed; only its signature can.
      if (i === lines.length - 1 && name === 'unsigned') continue;
      for (let byte = 0; byte < line.length; byte += 1) {
        const [first] = await faults(lines.with(i, withByte(line, byte)));
        // Without signatures, it is impossible to tell whether the last line or the one before it was replaced.
        const isAmbiguous = name === 'unsigned' && i >= lines.length - 2;
        // A damaged last line looks like one that was appended by hand, so either problem may be reported.
        const isLast = i === lines.length - 1;
        const expected = isLast ? expect.stringMatching(/^7 (?:changed|unchained)$/) : `${i + 1} changed`;
        expect([i, byte, first]).toEqual([i, byte, isAmbiguous ? expect.anything() : expected]);
      }
    }
  });

  test('removed lines are found', async () => {
    for (let i = 0; i < lines.length - 1; i += 1) {
      for (let count = 1; i + count < lines.length; count += 1) {
        expect(await faults(lines.toSpliced(i, count))).toEqual([`${i + 1} missing`]);
      }
    }
  });

  test('two lines that were swapped are found', async () => {
    for (let i = 0; i < lines.length; i += 1) {
      for (let j = i + 1; j < lines.length; j += 1) {
        const expected = j === i + 1 || j < lines.length - 1 ? `${i + 1} moved` : expect.stringMatching(`^${i + 1} `);
        expect(await faults(lines.with(i, at(j)).with(j, at(i)))).toEqual([expected]);
      }
    }
  });

  test('an inserted line is found, whether it is a copy, written by hand, or chained', async () => {
    for (let i = 1; i < lines.length; i += 1) {
      const before = lines.slice(0, i);
      expect(await faults(lines.toSpliced(i, 0, at(i - 1)))).toEqual([`${i + 1} moved`]);
      expect(await faults(lines.toSpliced(i, 0, Buffer.from('{"by":"hand"}')))).toEqual([`${i + 1} unchained`]);
      const [forged] = chained([event('forged')], undefined, before).slice(-1);
      const expected = name === 'signed' ? 'unsigned' : 'unchained';
      expect(await faults(lines.toSpliced(i, 0, forged ?? Buffer.alloc(0)))).toEqual([`${i + 1} ${expected}`]);
    }
  });

  test('a line that was appended by hand is reported as unchained, and one that is chained but not signed as unsigned', async () => {
    expect(await faults([...lines, Buffer.from('{"by":"hand"}')])).toEqual(['8 unchained']);
    expect(await faults(chained([event('x')], undefined, lines))).toEqual(name === 'signed' ? ['8 unsigned'] : []);
  });

  test('events after an unchained one are verified, too', async () => {
    const behind = chained(many(3), name === 'signed' ? key : undefined, [...lines, Buffer.from('{"by":"hand"}')]);
    expect(await faults(behind)).toEqual(['8 unchained']);
    expect(await faults(behind.toSpliced(9, 1))).toEqual(['8 unchained', '10 missing']);
    expect(await faults(behind.toSpliced(8, 1))).toEqual(['8 unchained', '9 missing']);
  });

  test('an anchor shows that the end of the trail was cut off, or that its history was rewritten', async () => {
    const anchors = [{ position: 5, hash: sha256Hex(at(4)) }];
    expect(await faults(lines, { anchors })).toEqual([]);
    expect(await faults(lines.slice(0, 5), { anchors })).toEqual([]);
    expect(await faults(lines.slice(0, 4), { anchors })).toEqual(['5 missing']);
    expect(await faults([], { anchors })).toEqual(['1 missing']);
    const rewritten = name === 'signed' ? chained([change(key), ...many(9).slice(1)], key) : chained(many(9).slice(1));
    expect(await faults(rewritten)).toEqual([]);
    expect(await faults(rewritten, { anchors })).toEqual(['5 changed']);
    // Both hashes were kept as anchors. Whichever is genuine, two versions of the event have existed.
    const both = [sha256Hex(at(4)), sha256Hex(rewritten[4] ?? at(0))];
    for (const hashes of [both, both.toReversed()]) {
      const conflicting = hashes.map((hash) => ({ position: 5, hash }));
      expect(await faults(lines, { anchors: conflicting })).toEqual(['5 changed']);
      expect(await faults(rewritten, { anchors: conflicting })).toEqual(['5 changed']);
    }
    // This is the maximum number of anchors on a command line.
    const behind = Array.from({ length: 25_000 }, (_, i) => ({ position: i + 100, hash: '0'.repeat(64) }));
    expect(await faults(lines, { anchors: behind })).toEqual([`${lines.length + 1} missing`]);
  });
});

test('a trail whose signatures are missing or made with another key is not accepted as signed by the expected key', async () => {
  const keys = [createPublicKey(key)];
  const without = chained(signed.map((line) => members(line)));
  expect(await faults(without)).toEqual([]);
  expect(await faults(without, { keys })).toEqual(['7 unsigned']);
  const another = chained([change(otherKey), ...many(6)], otherKey);
  expect(await faults(another)).toEqual([]);
  expect(await faults(another, { keys })).toEqual(['7 unsigned']);
  // Another key signs the following events.
  expect(await faults(chained(many(2), otherKey, signed))).toEqual(['8 changed']);
  expect(await faults(chained([change(otherKey), ...many(2)], otherKey, signed))).toEqual(['8 changed']);
});

test('a history that another key has signed, and that names the expected key at its end, is not accepted as signed by the expected key', async () => {
  const keys = [createPublicKey(key)];
  const forged = chained([change(otherKey), ...many(6), change(key)], otherKey);
  expect(await faults(forged, { keys })).toEqual(['8 unsigned']);
  const begunUnsigned = chained([change(otherKey), change(key)], otherKey, unsigned);
  expect(await faults(begunUnsigned, { keys })).toEqual(['9 unsigned']);
  // The old key signed the event that names its successor. A trail that ends before the successor's first signature is verified with the old key.
  const handedOver = chained([change(otherKey)], key, signed);
  expect(await faults(handedOver, { keys })).toEqual([]);
  expect(await faults(handedOver, { keys: [createPublicKey(otherKey)] })).toEqual(['8 unsigned']);
});

test('a trail whose first event follows another one, or has another position, is not whole', async () => {
  const late = lineAfter({ ...beginning, position: 4 }, event('x'), undefined);
  expect(await faults([late, ...unsigned.slice(1)])).toEqual(['1 changed']);
  const first = lineAfter({ position: 0, hash: '1'.repeat(64) }, event('x'), undefined);
  expect(await faults(chained(many(3), undefined, [first]))).toEqual(['1 changed']);
});

test('only an `audit_key_changed` event names the next key', async () => {
  const named = chained([{ ...event('x'), details: { key: publicText(otherKey) } }], key, signed);
  expect(await faults(chained(many(2), key, named))).toEqual([]);
  expect(await faults(chained(many(2), otherKey, named))).toEqual(['9 changed']);
});

/** The members of a line, without those that link it to a chain. */
function members(line: Buffer): object {
  const { position: _, prev: _prev, sig: _sig, ...rest } = JSON.parse(line.toString()) as Record<string, unknown>;
  return rest;
}

test('lines of the previous version are whole if the first chained line has their number and hash', async () => {
  const older = many(3).map((each) => Buffer.from(JSON.stringify(each)));
  const hash = sha256Hex(Buffer.from(older.map((line) => `${line.toString()}\n`).join('')));
  const begin = (details: object): object => ({ ...event('none'), action: 'trail_begun', details });
  const whole = chained([begin({ events: 3, sha256: hash }), ...many(3)], undefined, older);
  expect(await faults(whole)).toEqual([]);
  expect(await faults(whole.with(0, Buffer.from('{}')))).toEqual(['1 changed']);
  expect(await faults(whole.with(2, Buffer.from('{}')))).toEqual(['3 changed']);
  expect(await faults(whole.toSpliced(1, 1))).toEqual(['3 missing']);
  // Use the same lines with a signing key that was configured together with the upgrade.
  const withKey = chained([change(key), begin({ events: 3, sha256: hash }), ...many(3)], key, older);
  const keys = [createPublicKey(key)];
  expect(await faults(withKey, { keys })).toEqual([]);
  expect(await faults(withKey.with(2, Buffer.from('{}')), { keys })).toEqual(['3 changed']);
  expect(await faults(chained([change(key), begin({ events: 2, sha256: hash })], key, older))).toEqual(['1 changed']);
  expect(await faults(chained([change(key), ...many(2)], key, older))).toEqual(['1 unchained']);
  expect(await faults(chained([change(key)], key, older))).toEqual(['1 unchained']);
  expect(await faults(chained([begin({ events: 2, sha256: hash })], undefined, older))).toEqual(['1 changed']);
  expect(await faults(chained(many(1), undefined, older))).toEqual(['1 unchained']);
  expect(await faults(older)).toEqual(['1 unchained']);
});

test('lines are split as bytes, however they arrive; a last line without a newline is marked as torn', async () => {
  const bytes = Buffer.from('{"é":1}\n\n{"b":2}\n{"torn');
  for (let size = 1; size <= bytes.length; size += 1) {
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
      bytes.subarray(i * size, (i + 1) * size),
    );
    const found: string[] = [];
    for await (const { position, bytes, isTorn } of readLines(each(chunks)))
      found.push(`${position} ${bytes.toString()}${isTorn ? ' is torn' : ''}`);
    expect(found).toEqual(['1 {"é":1}', '2 ', '3 {"b":2}', '4 {"torn is torn']);
  }
});

test('100,000 events are verified in constant memory, a line at a time', async () => {
  let held = 0;
  let most = 0;
  const registry = new FinalizationRegistry(() => (held -= 1));
  async function* endless(): AsyncIterable<Line> {
    let last: Link = beginning;
    for (let i = 0; i < 100_000; i += 1) {
      const line = lineAfter(last, event('x'), undefined);
      last = { position: i + 1, hash: sha256Hex(line) };
      registry.register(line, undefined);
      held += 1;
      most = Math.max(most, held);
      // Finalizers run between turns of the event loop.
      if (i % 1_000 === 0) await new Promise(setImmediate);
      yield { bytes: line };
    }
  }
  expect(await verifyTrail(endless(), { keys: [], anchors: [] })).toMatchObject({
    events: 100_000,
    problems: [],
  });
  expect(most).toBeLessThan(50_000);
});

// Retried, because the two times are measured one after another, and a busy machine may slow down either measurement.
test(
  'a verification takes at most twice the time that OpenSSL takes for as many signatures',
  { timeout: 60_000, retry: 5 },
  async () => {
    const lines = chained([change(key), ...many(9_999)], key);
    // Measure CPU time, because it is the same on a busy machine. `openssl speed` also measures CPU time.
    const before = process.threadCpuUsage();
    expect(await verify(lines)).toMatchObject({ signed: 10_000, problems: [] });
    const { user, system } = process.threadCpuUsage(before);
    const speed = spawnSync('openssl', ['speed', '-seconds', '1', 'ed25519'], { encoding: 'utf8' }).stdout;
    const [, verifications = ''] = /^.*Ed25519.* ([\d.]+)\s*$/m.exec(speed) ?? [];
    const ratio = ((user + system) / 10_000) * (Number(verifications) / 1_000_000);
    expect(ratio).toBeGreaterThan(0.1);
    expect(ratio).toBeLessThan(2);
  },
);

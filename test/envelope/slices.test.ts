import { describe, expect, test, vi } from 'vitest';
import { createCodec } from '../../src/envelope/formats.ts';
import { hasEnvelopeShape, isEnvelope, openEnvelope } from '../../src/envelope/envelope.ts';
import { inSlices, sliceLength } from '../../src/slices.ts';
import { credentials, otherCredentials } from './fixtures.ts';
import { noMemory } from '../support/sidecar.ts';

describe('inSlices', () => {
  test.each([0, 1, sliceLength])('works on %d bytes at once, without a promise', (length) => {
    const work = vi.fn<() => void>();
    expect(inSlices(length, work)).toBe(true);
    expect(work.mock.calls).toEqual([[0, length]]);
    expect(inSlices(length, () => false)).toBe(false);
  });

  test('works on more bytes in turns of the event loop, between which other work can run', async () => {
    const steps: (string | [number, number])[] = [];
    let turns = 0;
    const turn = (): void => {
      steps.push('turn');
      if ((turns += 1) < 2) setImmediate(turn);
    };
    const work = inSlices(2 * sliceLength + 1, (from, to) => void steps.push([from, to]));
    setImmediate(turn);
    expect(await work).toBe(true);
    expect(steps).toEqual([
      [0, sliceLength],
      [sliceLength, 2 * sliceLength],
      'turn',
      [2 * sliceLength, 2 * sliceLength + 1],
    ]);
  });

  test('stops at the slice whose work returns false', async () => {
    const work = vi.fn<(from: number) => boolean>((from) => from < sliceLength);
    expect(await inSlices(4 * sliceLength, work)).toBe(false);
    expect(work).toHaveBeenCalledTimes(2);
  });
});

describe('a body of several slices', () => {
  const codec = createCodec(credentials, 'hex');
  const other = createCodec(otherCredentials, 'base64');
  const document = Buffer.from(JSON.stringify({ note: 'é'.repeat(sliceLength + 1) }));
  const envelopes = [codec, createCodec(credentials, 'base64'), other].map((each) => Buffer.from(each.seal(document)));

  test('opens with the matching credentials, byte for byte', async () => {
    for (const body of envelopes) {
      const opening = openEnvelope(body, [codec, other], noMemory);
      expect(opening).toBeInstanceOf(Promise);
      const opened = await opening;
      expect('plaintext' in opened && opened.plaintext.equals(document)).toBe(true);
      expect(await isEnvelope(body)).toBe(true);
      expect(await hasEnvelopeShape(body)).toBe(true);
    }
    const escaped = Buffer.from(envelopes[1]?.toString().replaceAll('/', '\\/') ?? '');
    expect(await openEnvelope(escaped, [codec], noMemory)).toHaveProperty('plaintext');
  });

  test('opens while another body of the same account is opened', async () => {
    const [body = Buffer.alloc(0)] = envelopes;
    const small = Buffer.from(codec.seal(Buffer.from('{"a":1}')));
    const long = openEnvelope(body, [codec], noMemory);
    expect(openEnvelope(small, [codec], noMemory)).toMatchObject({ plaintext: Buffer.from('{"a":1}') });
    const opened = await long;
    expect('plaintext' in opened && opened.plaintext.equals(document)).toBe(true);
  });

  const [sealed = ''] = envelopes.map((body) => body.toString());
  const base64 = createCodec(credentials, 'base64').seal(document);
  const brackets = '['.repeat(2 * sliceLength);

  test.each([
    ['open brackets', brackets, 'envelope_malformed', undefined],
    ['nested arrays', `${brackets}${']'.repeat(2 * sliceLength)}`, 'envelope_required', undefined],
    ['other members', `{"a":"${'a'.repeat(sliceLength)}","b":{"data":1}}`, 'envelope_required', undefined],
    ['two members', `{"data":${brackets}${']'.repeat(2 * sliceLength)},"data":"00"}`, 'envelope_malformed', undefined],
    ['a wrong digit in a late slice', `${sealed.slice(0, -5)}!${sealed.slice(-4)}`, 'decryption_failed', 'encoding'],
    [
      'padding between slices',
      `${base64.slice(0, sliceLength + 9)}AA==${base64.slice(sliceLength + 13)}`,
      'decryption_failed',
      'encoding',
    ],
    [
      'padding at the end of a slice',
      `${base64.slice(0, sliceLength + 5)}AAA=${base64.slice(sliceLength + 9)}`,
      'decryption_failed',
      'encoding',
    ],
    ['part of a block', `${sealed.slice(0, -4)}"}`, 'decryption_failed', 'length'],
    ['a missing block', `${sealed.slice(0, -34)}"}`, 'decryption_failed', 'padding'],
    ['a raw control character', `${sealed.slice(0, -2)}\n"}`, 'envelope_malformed', undefined],
  ])('is refused if it has %s', async (_, body, code, reason) => {
    expect(body.length).toBeGreaterThan(sliceLength);
    expect(await openEnvelope(Buffer.from(body), [codec], noMemory)).toEqual(
      reason === undefined ? { code } : { code, reason },
    );
  });

  test('is refused for a fault in the plaintext in any of its slices', async () => {
    for (const at of [0, sliceLength - 1, sliceLength, document.length - 1]) {
      const damaged = Buffer.from(document);
      damaged[at] = 0xff;
      expect(await openEnvelope(Buffer.from(codec.seal(damaged)), [codec, other], noMemory)).toEqual({
        code: 'decryption_failed',
        reason: 'not_json',
      });
    }
  });
});

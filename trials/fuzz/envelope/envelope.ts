import * as fc from 'fast-check';
import { encodings } from '../../../src/envelope/encoding.ts';
import { hintForBody } from '../../../src/envelope/hints/hints.ts';
import { createCodec } from '../../../src/envelope/formats.ts';
import { hasEnvelopeShape, isEnvelope, openEnvelope } from '../../../src/envelope/envelope.ts';
import { acmeLive, acmeTest, credentialsOf, noMemory } from '../../../test/support/sidecar.ts';
import { pieces } from '../mutation.ts';
import { ensure, type Part, type Tally } from '../part.ts';
import { envelopes } from './arbitrary.ts';
import { encrypted, shapeOf, verdictOf } from './oracle.ts';

const strange = { key: 'H7mQ2wZx8Rt5YuK1pLd4Gf9Js6Vb3NcA', iv: 'Qw8Er2Ty6Ui4Op1A' };
const secrets = [acmeTest, acmeLive];

interface EnvelopeCase {
  /** The body, with one character per byte. */
  readonly body: string;
  /** The positions at which the body is split if it is sealed in pieces. */
  readonly cuts: readonly number[];
}

/** Opens and seals in this process, and compares the results with one-shot ciphers and regular expressions. */
export const envelopePart: Part<EnvelopeCase> = {
  name: 'envelope',
  share: 30,
  lanes: 1,
  cases: fc.record({
    body: envelopes([...secrets, ...secrets, strange]),
    cuts: fc.array(fc.nat(65_535), { maxLength: 3 }),
  }),
  open: (tally) => {
    const credentials = secrets.map(credentialsOf);
    return Promise.resolve({
      check: (one) => {
        const body = Buffer.from(one.body, 'latin1');
        checkOpening(body, 1, credentials, tally);
        checkOpening(body, 2, credentials, tally);
        const { shape, whole } = shapeOf(body);
        ensure(hasEnvelopeShape(body) === shape, 'the shape of an envelope is seen', one.body);
        ensure(isEnvelope(body) === whole, 'an envelope is seen', one.body);
        checkSealing(body, one.cuts, credentials);
      },
      close: () => Promise.resolve(),
    });
  },
};

type AllCredentials = readonly ReturnType<typeof credentialsOf>[];

function checkOpening(body: Buffer, count: number, credentials: AllCredentials, tally: Tally): void {
  const verdict = verdictOf(body, secrets.slice(0, count));
  const openers = credentials.slice(0, count).map((each) => createCodec(each, 'hex'));
  const result = openEnvelope(body, openers, noMemory);
  const shown = [body.toString('latin1'), verdict];
  if ('plaintext' in verdict) {
    ensure('plaintext' in result, 'what can be opened is opened', ...shown, result);
    ensure(result.plaintext.equals(verdict.plaintext), 'the plaintext is the plaintext', ...shown);
    ensure(result.openedBy === openers[verdict.by], 'the credentials are the ones that opened it', ...shown);
    tally.count('opened');
    return;
  }
  ensure('code' in result, 'what cannot be opened is not opened', ...shown);
  const reason = 'reason' in verdict ? verdict.reason : undefined;
  ensure(result.code === verdict.code && result.reason === reason, 'the reason is the reason', ...shown, result);
  const hint = openers[0] && hintForBody(body, result.code, openers[0]);
  ensure(hint !== '', 'there is a hint for every failure', ...shown, result);
  tally.count(reason === undefined ? verdict.code : `${verdict.code} (${reason})`);
}

/** Seals the body as a plaintext, because any bytes may be sealed, and checks the result. */
function checkSealing(plaintext: Buffer, cuts: readonly number[], credentials: AllCredentials): void {
  for (const [index, encoding] of encodings.entries()) {
    const current = credentials[index];
    const secret = secrets[index];
    if (current === undefined || secret === undefined) continue;
    const codec = createCodec(current, encoding);
    const expected = `{"data":"${encrypted(secret, plaintext).toString(encoding)}"}`;
    ensure(codec.seal(plaintext) === expected, 'what is sealed is the one ciphertext', expected);
    ensure(codec.sealedLength(plaintext.length) === expected.length, 'its length is known before', expected);
    const sealer = codec.stream();
    const parts = pieces(plaintext.toString('latin1'), cuts).map((piece) =>
      sealer.update(Buffer.from(piece, 'latin1')),
    );
    ensure(parts.join('') + sealer.end() === expected, 'sealed in pieces it is the same', expected, cuts);
  }
}

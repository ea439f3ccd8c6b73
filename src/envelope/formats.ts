import { continueWith } from '../promises.ts';
import { AesCbcCodec } from './aes-cbc-codec.ts';
import type { EnvelopeCodec, PackedCodec } from './codec.ts';
import { Credentials, type FormatName } from './credentials.ts';
import { decodeBase64, type Encoding } from './encoding.ts';

/**
 * How envelopes are sealed, and how the key and the IV of an account are written. A format is a row of `formats` with
 * its own codec class. Code above this folder does not depend on the format of an account.
 */
interface EnvelopeFormat {
  readonly key: CredentialText;
  readonly iv: CredentialText;
  readonly codec: CodecClass;
}

interface CredentialText {
  /** Undefined if the text does not meet `expected`. */
  readonly read: (text: string) => Buffer | undefined;
  /** Follows "must be". */
  readonly expected: string;
}

interface CodecClass {
  new (credentials: Credentials, encoding: Encoding): EnvelopeCodec;
  /** Whether the string of an envelope has the form of a ciphertext. */
  looksLikeCiphertext(data: Buffer): boolean | Promise<boolean>;
}

/** Merchants' code truncates the IV, so its text may be longer. */
const formats: Readonly<Record<FormatName, EnvelopeFormat>> = {
  text: {
    key: { read: (text) => ofLength(32, Buffer.from(text)), expected: '32 bytes of UTF-8' },
    iv: {
      read: (text) => ofLength(16, Buffer.from(text.slice(0, 16))),
      expected: '16 bytes of UTF-8 in its first 16 characters',
    },
    codec: AesCbcCodec,
  },
  base64: {
    key: { read: (text) => ofLength(32, decodeBase64(text)), expected: '32 bytes in base64' },
    iv: { read: (text) => ofLength(16, decodeBase64(text)), expected: '16 bytes in base64' },
    codec: AesCbcCodec,
  },
};

/** Completes a sentence that begins with the member's name. Never contains the value. */
interface CredentialProblem {
  readonly member: 'key' | 'iv';
  readonly message: string;
}

/** Makes credentials of the two texts that a merchant was given, or lists all problems with them. */
export function parseCredentials(key: string, iv: string, format: FormatName): Credentials | CredentialProblem[] {
  const rules = formats[format];
  const [keyBytes, ivBytes] = [rules.key.read(key), rules.iv.read(iv)];
  if (keyBytes !== undefined && ivBytes !== undefined) return new Credentials(format, keyBytes, ivBytes);
  const problems: CredentialProblem[] = [];
  if (keyBytes === undefined) problems.push({ member: 'key', message: `must be ${rules.key.expected}` });
  if (ivBytes === undefined) problems.push({ member: 'iv', message: `must be ${rules.iv.expected}` });
  return problems;
}

/** @param encoding of sealed envelopes; either is accepted when opening */
export function codecOf(credentials: Credentials, encoding: Encoding): EnvelopeCodec {
  return new formats[credentials.format].codec(credentials, encoding);
}

/** The codec that was packed in another thread. */
export function unpackCodec({ format, key, iv, encoding }: PackedCodec): EnvelopeCodec {
  return codecOf(new Credentials(format, key, Buffer.from(iv)), encoding);
}

const codecs = [...new Set(Object.values(formats).map(({ codec }) => codec))];

/** Whether the string of an envelope has the form of a ciphertext of any format. */
export function looksLikeCiphertext(data: Buffer): boolean | Promise<boolean> {
  return codecs.reduce<boolean | Promise<boolean>>(
    (looks, codec) => continueWith(looks, (does) => does || codec.looksLikeCiphertext(data)),
    false,
  );
}

function ofLength(length: number, bytes: Buffer | undefined): Buffer | undefined {
  return bytes?.length === length ? bytes : undefined;
}

import { cryptography } from '../cryptography.ts';
import { continueWith } from '../promises.ts';
import { AesCbcCodec } from './aes-cbc-codec.ts';
import type { EnvelopeCodec, PackedCodec } from './codec.ts';
import { Credentials, type AlgorithmName, type KeyText } from './credentials.ts';
import { decodeBase64, type Encoding } from './encoding.ts';

/** How the text of a key, or of an IV, is read. */
interface TextReader {
  /** Returns undefined if the text is not written in this way. @param length how many bytes the algorithm needs */
  readonly read: (text: string, length: number) => Buffer | undefined;
  /** The text that follows "must be" in an error message. */
  readonly expected: (length: number) => string;
}

const base64: TextReader = { read: decodeBase64, expected: (length) => `${length} bytes in base64` };

/** How merchants' keys and IVs are written, whatever the algorithm. */
const readers: Readonly<Record<KeyText, Readonly<Record<'key' | 'iv', TextReader>>>> = {
  text: {
    key: { read: (text) => Buffer.from(text), expected: (length) => `${length} bytes of UTF-8` },
    iv: {
      // Merchants' code truncates the IV, so the text of an IV may be longer than needed.
      read: (text, length) => Buffer.from(text.slice(0, length)),
      expected: (length) => `${length} bytes of UTF-8 in its first ${length} characters`,
    },
  },
  base64: { key: base64, iv: base64 },
};

interface CodecClass {
  new (credentials: Credentials, encoding: Encoding): EnvelopeCodec;
  /** Whether the string of an envelope has the form of a ciphertext. */
  looksLikeCiphertext(data: Buffer): boolean | Promise<boolean>;
}

/**
 * How envelopes are sealed. Each algorithm is a row of `algorithms`, with its own codec class; code above this folder does not depend on
 * the algorithm.
 */
interface Algorithm {
  /** Lengths in bytes. */
  readonly lengths: Readonly<Record<'key' | 'iv', number>>;
  readonly codec: CodecClass;
}

const algorithms: Readonly<Record<AlgorithmName, Algorithm>> = {
  [cryptography.envelope.algorithm]: { lengths: { key: 32, iv: 16 }, codec: AesCbcCodec },
};

/** A problem with a key or an IV. The message completes a sentence that begins with the member's name, and never contains the value. */
interface CredentialProblem {
  readonly member: 'key' | 'iv';
  readonly message: string;
}

/** Creates credentials from the two strings that a merchant was given, or lists all problems with the strings. */
export function parseCredentials(
  key: string,
  iv: string,
  keyText: KeyText,
  algorithm: AlgorithmName = cryptography.envelope.algorithm,
): Credentials | CredentialProblem[] {
  const problems: CredentialProblem[] = [];
  const read = (member: 'key' | 'iv', text: string): Buffer => {
    const reader = readers[keyText][member];
    const length = algorithms[algorithm].lengths[member];
    const bytes = reader.read(text, length);
    if (bytes?.length === length) return bytes;
    problems.push({ member, message: `must be ${reader.expected(length)}` });
    return Buffer.alloc(length);
  };
  const credentials = new Credentials(algorithm, read('key', key), read('iv', iv));
  return problems.length === 0 ? credentials : problems;
}

/** @param encoding the encoding of sealed envelopes; `open` accepts either encoding */
export function createCodec(credentials: Credentials, encoding: Encoding): EnvelopeCodec {
  return new algorithms[credentials.algorithm].codec(credentials, encoding);
}

/** Restores a codec that was packed in another thread. */
export function unpackCodec({ algorithm, key, iv, encoding }: PackedCodec): EnvelopeCodec {
  return createCodec(new Credentials(algorithm, key, Buffer.from(iv)), encoding);
}

/** Whether an envelope's string has the form of a ciphertext, whatever the algorithm. */
export function looksLikeCiphertext(data: Buffer): boolean | Promise<boolean> {
  return Object.values(algorithms).reduce<boolean | Promise<boolean>>(
    (looks, { codec }) => continueWith(looks, (does) => does || codec.looksLikeCiphertext(data)),
    false,
  );
}

import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import type { EnvelopeOpener } from '../envelope/codec.ts';
import type { Credentials, KeyText } from '../envelope/credentials.ts';
import type { Encoding } from '../envelope/encoding.ts';
import { createCodec, parseCredentials } from '../envelope/formats.ts';
import { hintForBody } from '../envelope/hints/hints.ts';
import { openEnvelope, type OpenFailure } from '../envelope/envelope.ts';
import { isJson } from '../envelope/json/json.ts';
import { CommandFailed } from './failures.ts';
import { exitCodes, type CliIo } from './io.ts';

/** The parts of the process that these commands use. */
type CipherIo = Pick<CliIo, 'stdin' | 'stdout' | 'env' | 'clock'>;

/** The files with the credentials. If a file is not given, the environment variable `SIDECAR_KEY` or `SIDECAR_IV` is used. */
export interface CipherOptions {
  readonly keyFile?: string | undefined;
  readonly ivFile?: string | undefined;
  readonly format: KeyText;
}

/** `seal`: reads a JSON document from stdin and writes its envelope and a newline to stdout. @throws CommandFailed */
export async function seal(io: CipherIo, options: CipherOptions & { readonly encoding: Encoding }): Promise<void> {
  const credentials = await readCredentials(io, options);
  const input = await buffer(io.stdin);
  if (!isJson(input)) throw new CommandFailed('stdin is not a JSON document in UTF-8');
  await io.stdout.write(`${createCodec(credentials, options.encoding).seal(input)}\n`);
}

/**
 * `open`: reads an envelope, or only its ciphertext, from stdin and writes the plaintext to stdout, byte for byte.
 *
 * @throws CommandFailed
 */
export async function open(io: CipherIo, options: CipherOptions): Promise<void> {
  const opener = createCodec(await readCredentials(io, options), 'hex');
  const input = await buffer(io.stdin);
  const text = input.toString().trim();
  const isBare = !text.startsWith('{');
  const body = isBare ? Buffer.from(JSON.stringify({ data: text })) : input;
  const result = await openEnvelope(body, [opener], { clock: io.clock, memory: () => new Map() });
  if ('code' in result) throw new CommandFailed(explain(result, body, opener));
  await io.stdout.write(result.plaintext);
}

async function readCredentials(io: CipherIo, options: CipherOptions): Promise<Credentials> {
  const key = options.keyFile === undefined ? io.env['SIDECAR_KEY'] : await readSecret(options.keyFile);
  const iv = options.ivFile === undefined ? io.env['SIDECAR_IV'] : await readSecret(options.ivFile);
  if (key === undefined) throw new CommandFailed('no key: use --key-file or set SIDECAR_KEY', exitCodes.usage);
  if (iv === undefined) throw new CommandFailed('no IV: use --iv-file or set SIDECAR_IV', exitCodes.usage);
  const credentials = parseCredentials(key, iv, options.format);
  if (!Array.isArray(credentials)) return credentials;
  throw new CommandFailed(credentials.map(({ member, message }) => `the ${member} ${message}`).join('; '));
}

/** The text of a file without the newline that editors and `echo` add at its end. */
async function readSecret(path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).replace(/\r?\n$/, '');
  } catch (error) {
    throw new CommandFailed(`cannot read ${path}: ${(error as NodeJS.ErrnoException).code}`);
  }
}

/**
 * Explains why an envelope does not open. The message may distinguish wrong padding from wrong plaintext, because the caller has the key.
 */
function explain({ code, reason }: OpenFailure, body: Buffer, opener: EnvelopeOpener): string {
  if (code === 'envelope_required') return 'stdin has no "data" member: an envelope is {"data":"<ciphertext>"}';
  if (code === 'envelope_malformed')
    return 'stdin is not an envelope: expected {"data":"<ciphertext>"} without other members';
  if (reason === 'padding')
    return 'the padding is invalid: the key is wrong, or the ciphertext is damaged or not padded with PKCS#7';
  if (reason === 'not_json')
    return 'decrypted, but the plaintext is not JSON: the IV is wrong, or the sealed text was not JSON';
  return `cannot decrypt: ${hintForBody(body, code, opener)}`;
}

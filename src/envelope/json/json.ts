import { continueWith } from '../../promises.ts';
import { JsonReader } from './json-reader.ts';
import { inSlices } from '../../slices.ts';

/** Whether `bytes` are one JSON value (RFC 8259) in valid UTF-8 without a byte order mark. Reads all of them without a pause. */
export function isJson(bytes: Buffer): boolean {
  const reader = new JsonReader();
  reader.read(bytes, 0, bytes.length);
  return reader.accepts === 1;
}

/** The offset of the first byte at which no JSON document can continue; the length if `bytes` end too early or are a whole document. */
export function jsonFaultAt(bytes: Buffer): number {
  const reader = new JsonReader();
  for (let at = 0; at < bytes.length; at += 1) {
    reader.read(bytes, at, at + 1);
    if (reader.failed) return at;
  }
  return bytes.length;
}

/** Like `isJson`, but works in slices. */
export function isJsonInSlices(bytes: Buffer): boolean | Promise<boolean> {
  const reader = new JsonReader();
  const read = inSlices(bytes.length, (from, to) => reader.read(bytes, from, to));
  return continueWith(read, () => reader.accepts === 1);
}

/** Removes the white space outside strings and changes nothing else. Works in slices. `json` must satisfy `isJson`. */
export function minifyJson(json: Buffer): Buffer | Promise<Buffer> {
  const minifier = new Minifier(json.length);
  const read = inSlices(json.length, (from, to) => minifier.read(json, from, to));
  return continueWith(read, () => minifier.minified);
}

class Minifier {
  readonly #bytes: Buffer;
  #length = 0;
  #inString = false;
  #escaped = false;

  constructor(length: number) {
    this.#bytes = Buffer.allocUnsafe(length);
  }

  get minified(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  read(json: Buffer, from: number, to: number): void {
    const minified = this.#bytes;
    let length = this.#length;
    let inString = this.#inString;
    let escaped = this.#escaped;
    for (let at = from; at < to; at += 1) {
      const byte = json[at] as number;
      if (inString) {
        inString = byte !== quote || escaped;
        escaped = byte === backslash && !escaped;
      } else if (byte === quote) {
        inString = true;
      } else if (isWhiteSpace(byte)) {
        continue;
      }
      minified[length] = byte;
      length += 1;
    }
    this.#length = length;
    this.#inString = inString;
    this.#escaped = escaped;
  }
}

export const quote = 0x22;
export const backslash = 0x5c;

/** Whether a character is white space in JSON. JSON has fewer kinds of white space than JavaScript. */
export function isWhiteSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

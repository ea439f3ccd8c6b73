import { isUtf8 } from 'node:buffer';

/** Whether `bytes` are one JSON value (RFC 8259) in valid UTF-8 without a byte order mark. */
export function isJson(bytes: Buffer): boolean {
  // Latin-1 suffices: the parser accepts any character outside ASCII in a string and nowhere else. Invalid UTF-8 is parsed too,
  // and made to fail: an immediate refusal would show in the time of a response.
  const text = bytes.toString('latin1');
  try {
    JSON.parse(isUtf8(bytes) ? text : `${text}\0`);
    return true;
  } catch {
    return false;
  }
}

/** Removes the white space outside strings and changes nothing else. `json` must satisfy `isJson`. */
export function minifyJson(json: Buffer): Buffer {
  const minified = Buffer.allocUnsafe(json.length);
  let length = 0;
  let inString = false;
  let escaped = false;
  for (const byte of json) {
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
  return minified.subarray(0, length);
}

const quote = 0x22;
const backslash = 0x5c;

/** The white space of JSON, which is less than that of JavaScript. */
export function isWhiteSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

import { isUtf8 } from 'node:buffer';

/** Whether `bytes` are one JSON value (RFC 8259) in valid UTF-8 without a byte order mark. */
export function isJson(bytes: Buffer): boolean {
  // `toString` would turn bytes that are not UTF-8 into U+FFFD, which is fine in a JSON string.
  if (!isUtf8(bytes)) return false;
  try {
    JSON.parse(bytes.toString());
    return true;
  } catch {
    return false;
  }
}

/**
 * Removes the white space outside strings and changes nothing else: every digit, escape and member stays as it was
 * and where it was. `json` must satisfy `isJson`.
 */
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

/** A field of a message: its number and its bytes. The messages of a KMS have texts, bytes and messages only. */
export type Field = readonly [number: number, value: Buffer | string];

const lengthDelimited = 2;

/** @throws RangeError for a field number above 15 */
export function encodeMessage(fields: readonly Field[]): Buffer {
  return Buffer.concat(
    fields.flatMap(([number, value]) => {
      const bytes = Buffer.from(value);
      return [Buffer.of((number << 3) | lengthDelimited), varint(bytes.length), bytes];
    }),
  );
}

/** The fields of texts, bytes and messages, in their order; others are skipped. @throws RangeError if it is cut or malformed */
export function decodeMessage(message: Buffer): (readonly [number: number, value: Buffer])[] {
  const fields: (readonly [number, Buffer])[] = [];
  let at = 0;
  const number = (): number => {
    let value = 0;
    for (let shift = 1; ; shift *= 128) {
      const byte = message.readUInt8(at);
      at += 1;
      value += (byte & 0x7f) * shift;
      if (byte < 0x80) return value;
      if (shift > 2 ** 56) throw new RangeError('a number is too long');
    }
  };
  while (at < message.length) {
    const tag = number();
    const type = tag & 7;
    if (type === 0) number();
    const length = type === lengthDelimited ? number() : ({ 0: 0, 1: 8, 5: 4 }[type] ?? Infinity);
    if (length > message.length - at) throw new RangeError('a field is cut or has an unknown type');
    if (type === lengthDelimited) fields.push([tag >>> 3, message.subarray(at, at + length)]);
    at += length;
  }
  return fields;
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>>= 7) {
    if (rest < 0x80) return Buffer.from([...bytes, rest]);
    bytes.push((rest & 0x7f) | 0x80);
  }
}

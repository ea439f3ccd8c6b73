/** What a server has sent is malformed. The message has nothing of it. */
export class ProtocolError extends Error {}

/** The wire type of texts, bytes and messages. The messages of a KMS have no other fields. */
const lengthDelimited = 2;

/** The fields of a message, in their order. */
export type Message = readonly (readonly [number: number, value: Buffer])[];

type Value = Buffer | string;

/** @param values of the fields 1, 2 and so on, 15 at most; a list is a field that is repeated */
export function encodeMessage(...values: readonly (Value | readonly Value[])[]): Buffer {
  const encoded = (number: number, value: Value): Buffer[] => {
    const head = [(number << 3) | lengthDelimited];
    let rest = Buffer.byteLength(value);
    for (; rest > 0x7f; rest >>>= 7) head.push((rest & 0x7f) | 0x80);
    return [Buffer.of(...head, rest), typeof value === 'string' ? Buffer.from(value) : value];
  };
  return Buffer.concat(values.flatMap((value, i) => [value].flat().flatMap((each) => encoded(i + 1, each))));
}

/** The fields of texts, bytes and messages; others are skipped. @throws ProtocolError */
export function decodeMessage(message: Buffer): Message {
  const fields: (readonly [number, Buffer])[] = [];
  let at = 0;
  const varint = (shift = 0): number => {
    const byte = message[at++];
    if (byte === undefined || shift > 63) throw new ProtocolError('the response is malformed');
    return (byte & 0x7f) * 2 ** shift + (byte < 0x80 ? 0 : varint(shift + 7));
  };
  while (at < message.length) {
    const tag = varint();
    const type = tag & 7;
    if (type === 0) varint();
    const length = type === lengthDelimited ? varint() : ({ 0: 0, 1: 8, 5: 4 }[type] ?? Infinity);
    if (length > message.length - at) throw new ProtocolError('the response is malformed');
    if (type === lengthDelimited) fields.push([tag >>> 3, message.subarray(at, at + length)]);
    at += length;
  }
  return fields;
}

/** A field's bytes. It is absent if it is empty; if it stands twice, the last one counts. */
export function bytesOf(message: Message, number: number): Buffer {
  return message.findLast(([each]) => each === number)?.[1] ?? Buffer.alloc(0);
}

export function textOf(message: Message, number: number): string {
  return bytesOf(message, number).toString();
}

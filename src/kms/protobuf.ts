import { GrpcError, status } from './grpc.ts';

/** The wire type of texts, bytes and messages. The messages of a KMS have no other fields. */
const lengthDelimited = 2;

type Value = Buffer | string;

/** @param fields by their numbers, 15 at most; a list is a field that is repeated */
export function encodeMessage(fields: Readonly<Record<number, Value | readonly Value[]>>): Buffer {
  const encoded = (number: string, value: Value): Buffer[] => {
    const head = [(Number(number) << 3) | lengthDelimited];
    let rest = Buffer.byteLength(value);
    for (; rest > 0x7f; rest >>>= 7) head.push((rest & 0x7f) | 0x80);
    return [Buffer.of(...head, rest), typeof value === 'string' ? Buffer.from(value) : value];
  };
  return Buffer.concat(
    Object.entries(fields).flatMap(([number, values]) => [values].flat().flatMap((value) => encoded(number, value))),
  );
}

/** The fields of texts, bytes and messages, in their order; others are skipped. @throws GrpcError if it is cut or malformed */
export function decodeMessage(message: Buffer): (readonly [number: number, value: Buffer])[] {
  const fields: (readonly [number, Buffer])[] = [];
  let at = 0;
  const varint = (): number => {
    for (let value = 0, shift = 0; ; shift += 7) {
      const byte = message[at];
      if (byte === undefined || shift > 63) throw malformed();
      at += 1;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.length) {
    const tag = varint();
    const type = tag & 7;
    if (type === 0) varint();
    const length = type === lengthDelimited ? varint() : ({ 0: 0, 1: 8, 5: 4 }[type] ?? Infinity);
    if (length > message.length - at) throw malformed();
    if (type === lengthDelimited) fields.push([tag >>> 3, message.subarray(at, at + length)]);
    at += length;
  }
  return fields;
}

function malformed(): GrpcError {
  return new GrpcError(status.internal, 'the response is malformed');
}

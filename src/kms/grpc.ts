import { connect as connectSocket } from 'node:net';
import { unescape } from 'node:querystring';
import { AccountsError } from '../accounts/accounts-error.ts';

/** A KMS plug-in. */
export interface Plugin {
  /** Path of its Unix socket. */
  readonly socket: string;
  /** The time limit for each call, from connecting to the last byte, in milliseconds. */
  readonly timeout: number;
}

type Value = Buffer | string;

/** The values of a message's fields 1, 2 and so on, up to 15; a list is a repeated field. */
type Values = readonly (Value | readonly Value[])[];

/** The fields of a message, in order. */
type Message = readonly (readonly [number: number, value: Buffer])[];

/** The server has sent a malformed response. The error message does not quote it. */
class ProtocolError extends Error {}

/** Statuses with which a KMS says that it will never carry out the call: a wrong argument, no such key, no permission and the like. */
const definite: ReadonlySet<number> = new Set([3, 5, 7, 9, 12, 16]);

/** Statuses that this client itself assigns to a call. */
const [deadlineExceeded, internal, unavailable] = [4, 13, 14] as const;

/** The longest response, in bytes. Annotations take up at most 32 KiB of it. */
const maxResponse = 131_072;

/** The number of bytes before a message. These bytes state whether the message is compressed, and its length. */
const prefixLength = 5;

/** The wire type of strings, bytes and messages. The KMS messages have no fields of other types. */
const lengthDelimited = 2;

/**
 * Makes a unary call over a Unix socket. Each call has a connection of its own, because calls are rare.
 *
 * Every copy of the request and of the response is overwritten at the end, because it may contain a master key and Node reuses memory
 * without clearing it.
 *
 * @param values the values of the request, which are overwritten, too
 * @param read converts the response to the result
 * @throws AccountsError `kms_unavailable`, `kms_refused`
 */
export async function call<T>(
  { socket, timeout }: Plugin,
  method: 'Encrypt' | 'Decrypt' | 'Status',
  values: Values,
  read: (response: Message) => T,
): Promise<T> {
  // The module is loaded on demand, because HTTP/2 is only used with a KMS.
  const { connect } = await import('node:http2');
  const session = connect('http://localhost', { createConnection: () => connectSocket(socket) });
  // The session's errors are ignored here, because the stream reports them, too.
  session.on('error', () => {});
  const message = encodeMessage(values);
  const request = Buffer.concat([Buffer.alloc(prefixLength), message]);
  request.writeUInt32BE(message.length, 1);
  const body = Buffer.alloc(maxResponse + 1);
  const signal = AbortSignal.timeout(timeout);
  const failed = (status: number, why: string): AccountsError => {
    const text = `${method} of the KMS at ${socket} failed: ${why} (gRPC ${status})`;
    return new AccountsError(definite.has(status) ? 'kms_refused' : 'kms_unavailable', text);
  };
  try {
    const headers = { 'content-type': 'application/grpc', 'grpc-timeout': `${timeout}m`, te: 'trailers' };
    const path = `/v2.KeyManagementService/${method}`;
    const stream = session.request({ ':method': 'POST', ':path': path, ...headers }, { signal });
    // If a response has no body, its status is in the headers, not in the trailers.
    const end: Record<string, unknown> = {};
    for (const event of ['response', 'trailers']) stream.on(event, (fields) => void Object.assign(end, fields));
    stream.end(request);
    let length = 0;
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      length += chunk.copy(body, length);
      chunk.fill(0);
      if (length > maxResponse) throw new ProtocolError(`a response of more than ${maxResponse} bytes`);
    }
    const { 'grpc-status': status, 'grpc-message': text = '', ':status': http = 'none' } = end;
    if (status === undefined) throw failed(unavailable, `the response was cut off (HTTP status ${String(http)})`);
    // The message from the KMS is put on one line for the log. If the call carried a key, the message is left out, because it could repeat
    // the key.
    const why = method === 'Status' ? unescape(String(text)).replaceAll(/\p{C}/gu, ' ').slice(0, 200) : 'see its log';
    if (status !== '0') throw failed(Number(status), why);
    if (body[0] !== 0 || body.readUInt32BE(1) !== length - prefixLength)
      throw new ProtocolError('the response is not one uncompressed message');
    return read(decodeMessage(body.subarray(prefixLength, length)));
  } catch (error) {
    if (error instanceof AccountsError) throw error;
    if (error instanceof ProtocolError) throw failed(internal, error.message);
    if (signal.aborted) throw failed(deadlineExceeded, `no response within ${timeout} ms`);
    // If the connection has failed, only the cause of the stream's error says why.
    const { code, name } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
    throw failed(unavailable, code ?? name);
  } finally {
    session.destroy();
    for (const copy of [message, request, body, ...values.flat()]) if (Buffer.isBuffer(copy)) copy.fill(0);
  }
}

export function encodeMessage(values: Values): Buffer {
  const encoded = (number: number, value: Value): Buffer[] => {
    const head = [(number << 3) | lengthDelimited];
    let rest = Buffer.byteLength(value);
    for (; rest > 0x7f; rest >>>= 7) head.push((rest & 0x7f) | 0x80);
    return [Buffer.of(...head, rest), typeof value === 'string' ? Buffer.from(value) : value];
  };
  return Buffer.concat(values.flatMap((value, i) => [value].flat().flatMap((each) => encoded(i + 1, each))));
}

/** Decodes the fields with strings, bytes and messages, and skips all other fields. @throws ProtocolError */
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

/** The value of a field. An absent field is empty; if a field occurs twice, the last one counts. */
export function readField(message: Message, number: number): Buffer {
  return message.findLast(([each]) => each === number)?.[1] ?? Buffer.alloc(0);
}

import type { ClientHttp2Stream } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { unescape } from 'node:querystring';
import { AccountsError } from '../accounts/accounts-error.ts';
import { decodeMessage, ProtocolError, type Message } from './protobuf.ts';

/** A KMS plug-in. */
export interface Plugin {
  /** Path of its Unix socket. */
  readonly socket: string;
  /** Of each call, from connecting to the last byte, in milliseconds. */
  readonly timeout: number;
}

/** Statuses by which a KMS says that it will never do it: a wrong argument, no such key, no permission and the like. */
const definite: ReadonlySet<number> = new Set([3, 5, 7, 9, 12, 16]);

/** Statuses that this side gives a call itself. */
const [deadlineExceeded, internal, unavailable] = [4, 13, 14] as const;

/** The longest response. Annotations have 32 KiB at most. */
const maxResponse = 131_072;

const prefixLength = 5;

/**
 * One unary call over a Unix socket, on a connection of its own: calls are rare.
 *
 * Every copy of both messages is overwritten in the end: a master key may be in it, and Node uses memory again without clearing it.
 *
 * @param read gets the response
 * @throws AccountsError `kms_unavailable`, `kms_refused`
 */
export async function call<T>(
  { socket, timeout }: Plugin,
  method: 'Encrypt' | 'Decrypt' | 'Status',
  message: Buffer,
  read: (response: Message) => T,
): Promise<T> {
  // Loaded on demand: without a KMS, nothing speaks HTTP/2.
  const { connect } = await import('node:http2');
  const session = connect('http://localhost', { createConnection: () => connectSocket(socket) });
  // The stream has them too.
  session.on('error', () => {});
  const request = Buffer.concat([prefixOf(message.length), message]);
  const received: Buffer[] = [];
  const signal = AbortSignal.timeout(timeout);
  const failed = (status: number, why: string): AccountsError => {
    const text = `${method} of the KMS at ${socket} failed: ${why} (gRPC ${status})`;
    return new AccountsError(definite.has(status) ? 'kms_refused' : 'kms_unavailable', text);
  };
  try {
    const path = `/v2.KeyManagementService/${method}`;
    const headers = { 'content-type': 'application/grpc', 'grpc-timeout': `${timeout}m`, te: 'trailers' };
    const stream = session.request({ ':method': 'POST', ':path': path, ...headers }, { signal });
    // A response without a body has its status in its head.
    const end: Record<string, unknown> = {};
    for (const event of ['response', 'trailers']) stream.on(event, (fields) => void Object.assign(end, fields));
    stream.end(request);
    const body = await bodyOn(stream, received);
    const { 'grpc-status': status, 'grpc-message': text = '', ':status': http = 'none' } = end;
    if (status === undefined) throw failed(unavailable, `the response was cut off (HTTP status ${String(http)})`);
    // One line, which a log can have.
    if (status !== '0') throw failed(Number(status), unescape(String(text)).replaceAll(/\p{C}/gu, ' ').slice(0, 200));
    const response = body.subarray(prefixLength);
    if (!body.subarray(0, prefixLength).equals(prefixOf(response.length))) {
      throw new ProtocolError('the response is not one uncompressed message');
    }
    return read(decodeMessage(response));
  } catch (error) {
    if (error instanceof AccountsError) throw error;
    if (error instanceof ProtocolError) throw failed(internal, error.message);
    if (signal.aborted) throw failed(deadlineExceeded, `no response within ${timeout} ms`);
    // If the connection has failed, the stream's own error does not say why.
    const { code, name } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
    throw failed(unavailable, code ?? name);
  } finally {
    session.destroy();
    for (const copy of [message, request, ...received]) copy.fill(0);
  }
}

/** @param received gets the bytes of the body, as they come and as a whole */
async function bodyOn(stream: ClientHttp2Stream, received: Buffer[]): Promise<Buffer> {
  let length = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    received.push(chunk);
    length += chunk.length;
    if (length > maxResponse) throw new ProtocolError(`a response of more than ${maxResponse} bytes`);
  }
  const body = Buffer.concat(received);
  received.push(body);
  return body;
}

/** What stands before a message: that it is not compressed, and its length. */
function prefixOf(length: number): Buffer {
  const prefix = Buffer.alloc(prefixLength);
  prefix.writeUInt32BE(length, 1);
  return prefix;
}

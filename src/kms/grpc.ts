import type { ClientHttp2Stream } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { unescape } from 'node:querystring';

/** Status codes that this side gives a call itself. */
export const status = { deadlineExceeded: 4, internal: 13, unavailable: 14 } as const;

/** A call that has failed. The message may be the server's. */
export class GrpcError extends Error {
  readonly status: number;

  constructor(code: number, message: string) {
    super(message);
    this.status = code;
  }
}

/** The longest response. Annotations have 32 KiB at most. */
const maxResponse = 131_072;

const prefixLength = 5;

/**
 * One unary call over a Unix socket, on a connection of its own: calls are rare.
 *
 * Every copy of both messages is overwritten in the end: a master key may be in it, and Node uses memory again without clearing it.
 *
 * @param timeout milliseconds, from connecting to the last byte
 * @param read gets the response
 * @throws GrpcError
 */
export async function callUnary<T>(
  socket: string,
  path: string,
  message: Buffer,
  timeout: number,
  read: (response: Buffer) => T,
): Promise<T> {
  // Loaded on demand: without a KMS, nothing speaks HTTP/2.
  const { connect } = await import('node:http2');
  const session = connect('http://localhost', { createConnection: () => connectSocket(socket) });
  // The stream has them too.
  session.on('error', () => {});
  const prefix = Buffer.alloc(prefixLength);
  prefix.writeUInt32BE(message.length, 1);
  const request = Buffer.concat([prefix, message]);
  const received: Buffer[] = [];
  try {
    const signal = AbortSignal.timeout(timeout);
    const headers = { 'content-type': 'application/grpc', 'grpc-timeout': `${timeout}m`, te: 'trailers' };
    const stream = session.request({ ':method': 'POST', ':path': path, ...headers }, { signal });
    stream.end(request);
    const response = await responseOn(stream, received).catch((error: NodeJS.ErrnoException) => {
      if (error instanceof GrpcError) throw error;
      if (signal.aborted) throw new GrpcError(status.deadlineExceeded, `no response within ${timeout} ms`);
      // If the connection has failed, the stream's own error does not say why.
      const { code, message: text } = (error.cause ?? error) as NodeJS.ErrnoException;
      throw new GrpcError(status.unavailable, code ?? text);
    });
    return read(response);
  } finally {
    session.destroy();
    for (const copy of [message, request, ...received]) copy.fill(0);
  }
}

/** The sole message of a response that has succeeded. @param received gets all of its bytes */
async function responseOn(stream: ClientHttp2Stream, received: Buffer[]): Promise<Buffer> {
  // A response without a body has its status in its head.
  const end: Record<string, unknown> = {};
  for (const event of ['response', 'trailers']) stream.on(event, (fields) => void Object.assign(end, fields));
  let length = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    received.push(chunk);
    length += chunk.length;
    if (length > maxResponse) throw new GrpcError(status.unavailable, `a response of more than ${maxResponse} bytes`);
  }
  const body = Buffer.concat(received);
  received.push(body);
  const { 'grpc-status': code, 'grpc-message': text = '', ':status': http = 'none' } = end;
  if (typeof code !== 'string') {
    throw new GrpcError(status.unavailable, `the response was cut off (HTTP status ${String(http)})`);
  }
  // One line, which a log can have.
  if (code !== '0') throw new GrpcError(Number(code), unescape(String(text)).replaceAll(/\p{C}/gu, ' ').slice(0, 200));
  if (body.length < prefixLength || body[0] !== 0 || body.readUInt32BE(1) !== body.length - prefixLength) {
    throw new GrpcError(status.internal, 'the response is not one uncompressed message');
  }
  return body.subarray(prefixLength);
}

import { connect as connectSocket } from 'node:net';

/** Status codes that this side gives a call itself. */
const status = { ok: 0, deadlineExceeded: 4, internal: 13, unavailable: 14 } as const;

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
 * @param timeout milliseconds, from connecting to the last byte
 * @throws GrpcError
 */
export async function callUnary(socket: string, path: string, message: Buffer, timeout: number): Promise<Buffer> {
  // Loaded on demand: without a KMS, nothing speaks HTTP/2.
  const { connect, constants } = await import('node:http2');
  const connection = connectSocket(socket);
  const session = connect('http://localhost', { createConnection: () => connection });
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  // It may fail before it is awaited.
  promise.catch(() => {});
  const fail = (error: NodeJS.ErrnoException): void =>
    reject(new GrpcError(status.unavailable, error.code ?? error.message));
  const timer = setTimeout(
    () => reject(new GrpcError(status.deadlineExceeded, `no response within ${timeout} ms`)),
    timeout,
  );
  // First of all, because what the session makes of it does not say what has failed.
  connection.prependListener('error', fail);
  session.on('error', fail);
  session.on('close', () => reject(new GrpcError(status.unavailable, 'the connection was closed')));
  try {
    const stream = session.request({
      [constants.HTTP2_HEADER_METHOD]: 'POST',
      [constants.HTTP2_HEADER_PATH]: path,
      'content-type': 'application/grpc',
      'grpc-timeout': `${timeout}m`,
      te: 'trailers',
    });
    const chunks: Buffer[] = [];
    let length = 0;
    let end: Readonly<Record<string, unknown>> = {};
    // A response without a body has its status in its head.
    stream.on('response', (headers) => {
      end = headers;
      const code = Number(headers[constants.HTTP2_HEADER_STATUS]);
      if (code !== 200) reject(new GrpcError(status.unavailable, `HTTP status ${code}`));
    });
    stream.on('trailers', (trailers) => void (end = trailers));
    stream.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length > maxResponse)
        reject(new GrpcError(status.unavailable, `a response of more than ${maxResponse} bytes`));
      else chunks.push(chunk);
    });
    stream.on('error', fail);
    stream.on('end', () => {
      try {
        resolve(messageOf(Buffer.concat(chunks), end));
      } catch (error) {
        reject(error);
      }
    });
    stream.end(framed(message));
    return await promise;
  } finally {
    clearTimeout(timer);
    session.destroy();
  }
}

function framed(message: Buffer): Buffer {
  const prefix = Buffer.alloc(prefixLength);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** The sole message of a response that has succeeded. */
function messageOf(body: Buffer, end: Readonly<Record<string, unknown>>): Buffer {
  const code = end['grpc-status'];
  if (typeof code !== 'string') throw new GrpcError(status.unavailable, 'the response was cut off');
  if (code !== String(status.ok)) throw new GrpcError(Number(code), textOf(end['grpc-message']));
  if (body.length < prefixLength || body[0] !== 0 || body.readUInt32BE(1) !== body.length - prefixLength) {
    throw new GrpcError(status.internal, 'the response is not one uncompressed message');
  }
  return body.subarray(prefixLength);
}

/** The server's message in one line that a log can have. */
function textOf(message: unknown): string {
  const text = (typeof message === 'string' ? message : '').replaceAll(/(?:%[0-9A-Fa-f]{2})+/g, (bytes) =>
    Buffer.from(bytes.replaceAll('%', ''), 'hex').toString(),
  );
  return text.replaceAll(/\p{C}/gu, ' ').slice(0, 200);
}

import { connect, type NetConnectOpts, type Socket } from 'node:net';

/**
 * Sends raw bytes and resolves with all bytes received until the other side closes, or `until` is satisfied.
 *
 * @param to a port on loopback, or another address
 */
export function exchangeRaw(
  to: number | NetConnectOpts,
  bytes: string | Buffer,
  until: (received: string) => boolean = () => false,
): Promise<string> {
  return new Promise((resolve, reject) => {
    let received = '';
    const socket: Socket = connect(typeof to === 'number' ? { host: '127.0.0.1', port: to } : to, () =>
      socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes),
    );
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => {
      received += chunk;
      if (until(received)) socket.destroy();
    });
    socket.on('error', (error: Error & { code?: string }) => {
      if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') reject(error);
    });
    socket.on('close', () => resolve(received));
  });
}

/** One raw request with `Connection: close`, so that the response ends with the connection. */
export function rawRequest(
  port: number,
  requestLine: string,
  headers: readonly string[] = [],
  body = '',
): Promise<string> {
  return exchangeRaw(port, [requestLine, 'Host: localhost', 'Connection: close', ...headers, '', body].join('\r\n'));
}

/** The parts of a raw response. */
export function parseResponse(raw: string): { status: number; headers: Record<string, string>; body: string } {
  const end = raw.indexOf('\r\n\r\n');
  const [statusLine = '', ...lines] = raw.slice(0, end).split('\r\n');
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  );
  return { status: Number(statusLine.split(' ')[1]), headers, body: raw.slice(end + 4) };
}

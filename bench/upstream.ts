import { hash } from 'node:crypto';
import { createServer, type Socket } from 'node:net';
import { documentOf } from './documents.ts';

/**
 * The upstream of every measured server, which is a separate program: `node bench/upstream.ts PORT`. It responds to `…/SIZE` with a
 * document of this size once the request's body has arrived. It speaks just enough HTTP/1.1 for that, on bare sockets, because it shares a
 * core with the load and must not be the bottleneck. With `?check` in the target, the response also contains the SHA-256 of the request's
 * body, and the account.
 */
const megabyte = 1024 ** 2;

/** Larger responses are not kept in memory. One piece is sent repeatedly instead. */
const largest = 64 * megabyte;
const responses = new Map<number, Buffer>();

function responseOf(size: number, more: string): Buffer[] {
  const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${size}\r\n${more}\r\n`;
  let document = responses.get(size);
  if (document === undefined) {
    document = documentOf(size > largest ? megabyte : size);
    responses.set(size, document);
  }
  return [Buffer.from(head, 'latin1'), document];
}

/** The responses to requests such as `GET /api/s2s/responses/156`, each in one buffer, because most requests are the same. */
const ready = new Map<string, Buffer>();

function serve(socket: Socket): void {
  let pending: Buffer | undefined;
  /** The request whose body is arriving. */
  let target = '';
  let awaited = 0;
  let body: Buffer[] | undefined;
  let account = '';

  const response = (): void => {
    let whole = ready.get(target);
    if (whole === undefined) {
      const size = Number(/\/(\d+)(?:\?|$)/.exec(target)?.[1] ?? 0);
      const seen =
        body === undefined
          ? ''
          : `X-Seen-Sha256: ${hash('sha256', Buffer.concat(body))}\r\nX-Seen-Account: ${account}\r\n`;
      const [head, document] = responseOf(size, seen) as [Buffer, Buffer];
      if (size > largest) {
        socket.write(head);
        stream(socket, document, size);
        return;
      }
      whole = Buffer.concat([head, document]);
      if (body === undefined) ready.set(target, whole);
    }
    body = undefined;
    socket.write(whole);
  };

  socket.on('data', (chunk: Buffer) => {
    let rest = chunk;
    while (rest.length > 0) {
      if (awaited === 0) {
        if (pending !== undefined) rest = Buffer.concat([pending, rest]);
        pending = undefined;
        const end = rest.indexOf('\r\n\r\n');
        if (end === -1) {
          pending = rest;
          return;
        }
        const head = rest.toString('latin1', 0, end);
        const from = head.indexOf(' ') + 1;
        target = head.slice(from, head.indexOf(' ', from));
        awaited = Number(/\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
        if (/\ntransfer-encoding:/i.test(head)) throw new Error("the benchmark's upstream takes no chunked bodies");
        body = target.endsWith('?check') ? [] : undefined;
        if (body !== undefined) account = /\nx-account-id: *(\S+)/i.exec(head)?.[1] ?? '';
        rest = rest.subarray(end + 4);
      }
      const part = rest.length > awaited ? rest.subarray(0, awaited) : rest;
      body?.push(part);
      awaited -= part.length;
      rest = rest.subarray(part.length);
      if (awaited === 0) response();
      else return;
    }
  });
  socket.on('error', () => {});
  socket.setNoDelay(true);
}

/** Writes `document` repeatedly until `size` bytes have been sent, as fast as the other side reads them. */
function stream(socket: Socket, document: Buffer, size: number): void {
  let left = size;
  const write = (): void => {
    while (left > 0) {
      const part = document.subarray(0, Math.min(left, document.length));
      left -= part.length;
      if (!socket.write(part)) {
        socket.once('drain', write);
        return;
      }
    }
  };
  write();
}

createServer(serve).listen(Number(process.argv[2]), '127.0.0.1', 4096);

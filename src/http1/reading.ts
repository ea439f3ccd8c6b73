import { Socket } from 'node:net';

/**
 * What this relies on beyond Node's documentation, all of it parts that Node itself uses for the option `onread`, which its servers do not
 * offer:
 *
 * - A socket's `_handle` has `readStop` and `readStart`, with which Node itself pauses and resumes the socket. Node calls neither of them
 *   while the socket flows or passes its bytes to a callback.
 * - A TCP handle has `useUserBuffer`: once it has been called, the handle reads into that memory. The socket keeps the memory and the
 *   callback under the symbols `kBuffer` and `kBufferCb`.
 *
 * The version of Node is pinned. Without the symbols or the method, sockets are read through 'data' events.
 */
interface Handle {
  /** Whether Node wants it to be read. */
  readonly reading: boolean;
  readStop(): void;
  readStart(): void;
  useUserBuffer?(memory: Uint8Array): void;
}

/** Maximum number of bytes in one read of a socket. */
export const readLength = 65_536;

/** Receives the bytes of a socket. They are overwritten after the call. @returns false to read nothing more until Node asks for more */
type Receive<S extends Socket> = (this: S, length: number, memory: Buffer) => boolean;

const symbols = Object.getOwnPropertySymbols(new Socket());
const [memoryKey, callbackKey] = ['kBuffer', 'kBufferCb'].map((name) =>
  symbols.find(({ description }) => description === name),
);

/**
 * Reads a socket without TLS into memory that others may share. Otherwise, Node makes a buffer of 64 KiB for each read, and V8 collects the
 * whole heap after every few hundred of them.
 *
 * @returns false if this version of Node cannot do so: then the bytes come in 'data' events
 */
export function readInto<S extends Socket>(socket: S, memory: Buffer, receive: Receive<S>): boolean {
  const handle = getHandle(socket);
  if (handle?.useUserBuffer === undefined || memoryKey === undefined || callbackKey === undefined) return false;
  Object.assign(socket, { [memoryKey]: memory, [callbackKey]: receive });
  handle.useUserBuffer(memory);
  return true;
}

/** A `Receive` that passes the bytes to those who read the socket as a stream. */
function pushAsStream(this: Socket, length: number, memory: Buffer): boolean {
  return this.push(Buffer.from(memory.subarray(0, length)));
}

/** From now on, reads as a stream a socket that was read by `readInto`. */
export function readAsStream(socket: Socket): void {
  if (callbackKey !== undefined && memoryKey !== undefined && Reflect.get(socket, memoryKey) !== null)
    Object.assign(socket, { [callbackKey]: pushAsStream });
}

/**
 * Stops reading a socket. On TLS, the records that were already read are still emitted: less than 64 KiB. `pause` is not enough: Node would
 * go on reading, up to 64 KiB, and keep each piece as a Buffer of its own. TLS records of one byte would become 65,536 Buffers, which take
 * seven megabytes.
 */
export function stopReading(socket: Socket): void {
  getHandle(socket)?.readStop();
}

/**
 * Reads a socket again after `stopReading`. If Node has stopped it too, because nobody takes what was read, only Node may start it again:
 * if a socket is already being read when Node starts to read it, Node destroys the socket.
 */
export function startReading(socket: Socket): void {
  const handle = getHandle(socket);
  if (handle?.reading === true) handle.readStart();
}

/** Undefined once the socket has closed. */
function getHandle(socket: Socket): Handle | undefined {
  return (socket as { readonly _handle?: Handle | null })._handle ?? undefined;
}

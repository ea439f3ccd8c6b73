import { Socket } from 'node:net';

/**
 * The undocumented parts of Node that this file relies on. Node itself uses all of them for the option `onread`, which its servers do not
 * offer:
 *
 * - A socket's `_handle` has `readStop` and `readStart`, with which Node itself pauses and resumes the socket. Node calls neither of them
 *   while the socket flows or passes its bytes to a callback.
 * - A TCP handle has `useUserBuffer`. Once this method has been called, the handle reads into the given memory. The socket keeps the memory
 *   and the callback under the symbols `kBuffer` and `kBufferCb`.
 *
 * The version of Node is pinned. If the symbols or the method are missing, sockets are read through 'data' events.
 */
interface Handle {
  /** Whether Node wants the handle to be read. */
  readonly reading: boolean;
  readStop(): void;
  readStart(): void;
  useUserBuffer?(memory: Uint8Array): void;
}

/** Maximum number of bytes in one read of a socket. */
export const readLength = 65_536;

/** Receives the bytes of a socket, which are overwritten after the call. @returns false to read nothing more until Node asks for more */
type Receive<S extends Socket> = (this: S, length: number, memory: Buffer) => boolean;

const symbols = Object.getOwnPropertySymbols(new Socket());
const [memoryKey, callbackKey] = ['kBuffer', 'kBufferCb'].map((name) =>
  symbols.find(({ description }) => description === name),
);

/**
 * Reads a socket without TLS into memory that other sockets may share. Otherwise, Node would create a buffer of 64 KiB for each read, and
 * V8 would collect the whole heap after every few hundred buffers.
 *
 * @returns false if this version of Node cannot do so; the bytes then arrive in 'data' events
 */
export function readInto<S extends Socket>(socket: S, memory: Buffer, receive: Receive<S>): boolean {
  const handle = getHandle(socket);
  if (handle?.useUserBuffer === undefined || memoryKey === undefined || callbackKey === undefined) return false;
  Object.assign(socket, { [memoryKey]: memory, [callbackKey]: receive });
  handle.useUserBuffer(memory);
  return true;
}

/** A `Receive` that passes the bytes to code that reads the socket as a stream. */
function pushAsStream(this: Socket, length: number, memory: Buffer): boolean {
  return this.push(Buffer.from(memory.subarray(0, length)));
}

/** Makes Node read a socket as a stream again after `readInto`. */
export function readAsStream(socket: Socket): void {
  if (callbackKey !== undefined && memoryKey !== undefined && Reflect.get(socket, memoryKey) !== null)
    Object.assign(socket, { [callbackKey]: pushAsStream });
}

/**
 * Stops reading a socket. With TLS, records that were already read (less than 64 KiB) are still emitted. `pause` is not enough, because
 * Node would continue to read, up to 64 KiB, and keep each piece as a separate Buffer. TLS records of one byte would become 65,536 Buffers,
 * which take seven megabytes.
 */
export function stopReading(socket: Socket): void {
  getHandle(socket)?.readStop();
}

/**
 * Reads a socket again after `stopReading`. If Node has stopped the socket too, because nobody takes its data, only Node may start to read
 * it again. Otherwise, Node would find that the socket is already being read, and would destroy it.
 */
export function startReading(socket: Socket): void {
  const handle = getHandle(socket);
  if (handle?.reading === true) handle.readStart();
}

/** The socket's handle; undefined once the socket has closed. */
function getHandle(socket: Socket): Handle | undefined {
  return (socket as { readonly _handle?: Handle | null })._handle ?? undefined;
}

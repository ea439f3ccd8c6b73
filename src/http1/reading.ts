import { Socket } from 'node:net';

/**
 * What this relies on beyond Node's documentation, all of Node's own parts for the option `onread`, which its servers do not offer:
 *
 * - A socket's `_handle` has `readStop` and `readStart`, by which Node itself pauses and resumes a socket, and Node calls neither while the
 *   socket flows, or gives its bytes to a callback.
 * - A handle of TCP has `useUserBuffer`: from then on it reads into that memory. The socket has the memory and the callback under the
 *   symbols `kBuffer` and `kBufferCb`.
 *
 * The version of Node is pinned. Without the symbols or the method, sockets are read by 'data'.
 */
interface Handle {
  /** Whether Node wants it to be read. */
  readonly reading: boolean;
  readStop(): void;
  readStart(): void;
  useUserBuffer?(memory: Uint8Array): void;
}

/** Bytes that a socket is read at once, at most. */
export const readLength = 65_536;

/** Receives the bytes of a socket. They are overwritten after the call. @returns false to read nothing more until Node asks for more */
type Receive<S extends Socket> = (this: S, length: number, memory: Buffer) => boolean;

const symbols = Object.getOwnPropertySymbols(new Socket());
const [memoryKey, callbackKey] = ['kBuffer', 'kBufferCb'].map((name) =>
  symbols.find(({ description }) => description === name),
);

/**
 * Has a socket without TLS read into memory that others may share. Otherwise Node makes a buffer of 64 KiB for each read, and V8 collects
 * the whole heap after each few hundred of them.
 *
 * @returns false if this Node cannot: then its bytes come by 'data'
 */
export function readInto<S extends Socket>(socket: S, memory: Buffer, receive: Receive<S>): boolean {
  const handle = getHandle(socket);
  if (handle?.useUserBuffer === undefined || memoryKey === undefined || callbackKey === undefined) return false;
  Object.assign(socket, { [memoryKey]: memory, [callbackKey]: receive });
  handle.useUserBuffer(memory);
  return true;
}

/** As a `Receive`: gives the bytes to those who read the socket as a stream. */
function pushAsStream(this: Socket, length: number, memory: Buffer): boolean {
  return this.push(Buffer.from(memory.subarray(0, length)));
}

/** Has a socket that was read by `readInto` read as a stream from now on. */
export function readAsStream(socket: Socket): void {
  if (callbackKey !== undefined && memoryKey !== undefined && Reflect.get(socket, memoryKey) !== null)
    Object.assign(socket, { [callbackKey]: pushAsStream });
}

/**
 * Reads nothing more of a socket. On TLS the records that were read already are still emitted: less than 64 KiB. `pause` is not enough:
 * Node goes on to read up to 64 KiB, and keeps each piece as a Buffer of its own. TLS records of one byte make 65,536 of them, which take
 * seven megabytes.
 */
export function stopReading(socket: Socket): void {
  getHandle(socket)?.readStop();
}

/**
 * Reads a socket again after `stopReading`. If Node has stopped it too, because nobody takes what was read, it is Node's to start: of a
 * socket that is read already it destroys it.
 */
export function startReading(socket: Socket): void {
  const handle = getHandle(socket);
  if (handle?.reading === true) handle.readStart();
}

/** Undefined once the socket has closed. */
function getHandle(socket: Socket): Handle | undefined {
  return (socket as { readonly _handle?: Handle | null })._handle ?? undefined;
}

import type { Socket } from 'node:net';

/**
 * What this relies on beyond Node's documentation: a socket's `_handle` has `readStop` and `readStart`, by which Node itself pauses
 * and resumes a socket, and Node calls neither while the socket flows.
 *
 * `pause` is not enough: Node goes on to read up to 64 KiB, and keeps each piece as a Buffer of its own. TLS records of one byte make
 * 65,536 of them, which take seven megabytes.
 */
interface Handle {
  readStop(): void;
  readStart(): void;
}

/** Reads nothing more of a flowing socket. On TLS the records that were read already are still emitted: less than 64 KiB. */
export function stopReading(socket: Socket): void {
  getHandle(socket)?.readStop();
}

export function startReading(socket: Socket): void {
  getHandle(socket)?.readStart();
}

/** Undefined once the socket has closed. */
function getHandle(socket: Socket): Handle | undefined {
  return (socket as { readonly _handle?: Handle | null })._handle ?? undefined;
}

import { Socket } from 'node:net';
import { onTestFinished, vi } from 'vitest';

type Report = (error?: Error | null) => void;

/**
 * Until the test is over, delays the callbacks that tell chosen sockets of this process that their bytes were sent. These callbacks come
 * late with TLS, too: in a later turn of the event loop.
 *
 * @returns a function that calls the delayed callbacks
 */
export function holdReports(isHeld: (socket: Socket) => boolean): () => void {
  const reports: (() => void)[] = [];
  const late = (socket: Socket, sent: Report): Report =>
    isHeld(socket) ? (error) => void reports.push(() => sent(error)) : sent;
  // oxlint-disable-next-line typescript/unbound-method -- called with their socket
  const { _write: send, _writev: sendAll } = Socket.prototype;
  const spies = [
    vi.spyOn(Socket.prototype, '_write').mockImplementation(function (this: Socket, bytes, encoding, sent) {
      send.call(this, bytes, encoding, late(this, sent));
    }),
    vi.spyOn(Socket.prototype, '_writev').mockImplementation(function (this: Socket, all, sent) {
      sendAll?.call(this, all, late(this, sent));
    }),
  ];
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore();
  });
  return () => {
    for (const report of reports.splice(0)) report();
  };
}

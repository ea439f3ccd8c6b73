import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import { onTestFinished } from 'vitest';
import { openConnection } from './connection.ts';
import type { Defer } from './file-wide.ts';

/**
 * Makes a server listen on 127.0.0.1 until the test is over. The connections of an HTTP server are then closed, too.
 *
 * @param at a port, by default a free one, or the path of a socket
 * @returns the port; 0 for a socket
 */
export async function listen(
  server: Server & { closeAllConnections?: () => void },
  at: number | string = 0,
  defer: Defer = onTestFinished,
): Promise<number> {
  if (typeof at === 'string') server.listen(at);
  else server.listen(at, '127.0.0.1');
  await once(server, 'listening');
  defer(() => {
    server.closeAllConnections?.();
    server.close();
  });
  return typeof at === 'string' ? 0 : (server.address() as AddressInfo).port;
}

/** Whether a server listens on this port. */
export async function listens(port: number): Promise<boolean> {
  return openConnection(port).then(
    () => true,
    () => false,
  );
}

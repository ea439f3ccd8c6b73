import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Connections to this port are refused, because nothing listens on it and no listener on port 0 can get it. */
export const refusingPort = 1;

/**
 * Finds a port for a program that must know its port before it listens. The port is below those that the system gives to listeners on port
 * 0 (`net.ipv4.ip_local_port_range`), so no other test's listener can get it in the meantime.
 */
export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1);
  return port;
}

/** Finds several different ports. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = randomInt(20_000, 30_000);
    if (await isFree(port)) ports.add(port);
  }
  return [...ports];
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
  } catch {
    return false;
  }
  await once(server.close(), 'close');
  return true;
}

import { createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Upstream } from '../../src/upstream/upstream.ts';

/**
 * Counts how many requests get the response to another request if a core sends one response too many: 100 times for each of several delays,
 * each time with 16 requests in progress. The core runs in this process, which makes the worst timing more likely.
 */

const rounds = 100;
const concurrency = 16;
const requestsOfEach = 12;

/** Starts a core that responds with the request's path, and to `/8-0` a second time after `delay` milliseconds. */
async function startCore(echoes: boolean, delay: number): Promise<{ origin: string; close: () => void }> {
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)));
    socket.on('data', (bytes) => {
      const [, path = '', id = ''] = /^GET (\S+) [^]*X-Request-Id: (\S+)\r\n/.exec(bytes.toString('latin1')) ?? [];
      const echo = echoes ? `X-Request-Id: ${id}\r\n` : '';
      const response = `HTTP/1.1 200 OK\r\n${echo}Content-Length: ${path.length}\r\n\r\n${path}`;
      const respond = (): void => void socket.write(response);
      setTimeout(respond, Math.random() * 3);
      if (path === '/8-0') setTimeout(respond, 3 + delay);
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const close = (): void => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

/** @returns the body, or the code of the failure */
function get(upstream: Upstream, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let body = '';
    upstream.send(
      {
        method: 'GET',
        target: path,
        headers: ['Host', 'core', 'X-Request-Id', `id-${path.slice(1)}`],
        body: undefined,
      },
      {
        onInformation: () => {},
        onHead: () => {},
        onData: (chunk) => (body += chunk.toString('latin1')),
        onEnd: () => resolve(body),
        onFailure: ({ code }) => resolve(code),
        onError: reject,
      },
    );
  });
}

async function wrongIn(echoes: boolean, delay: number): Promise<{ wrong: number; withheld: number }> {
  const core = await startCore(echoes, delay);
  const { origin } = core;
  const target = {
    origin,
    socketPath: undefined,
    ca: undefined,
    cert: undefined,
    key: undefined,
    forwardsAuthorization: false,
  };
  const upstream = new Upstream(target, 2_000, () => {});
  let wrong = 0;
  let withheld = 0;
  const client = async (_: unknown, who: number): Promise<void> => {
    for (let i = 0; i < requestsOfEach; i += 1) {
      const path = `/${who}-${i}`;
      const body = await get(upstream, path);
      if (body === 'upstream_unavailable') withheld += 1;
      else if (body !== path) wrong += 1;
      await sleep(Math.random() * 2);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, client));
  upstream.close();
  core.close();
  return { wrong, withheld };
}

for (const echoes of [true, false]) {
  for (const delay of [0, 0.5, 2, 5]) {
    let [wrong, withheld] = [0, 0];
    for (let round = 0; round < rounds; round += 1) {
      const outcome = await wrongIn(echoes, delay);
      wrong += outcome.wrong;
      withheld += outcome.withheld;
    }
    const core = echoes ? 'echoes X-Request-Id' : 'does not echo it';
    console.log(
      `a core that ${core}, ${rounds} responses too many, ${delay} ms late: ${wrong} wrong, ${withheld} withheld (502)`,
    );
  }
}

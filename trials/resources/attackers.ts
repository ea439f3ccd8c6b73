import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { acmeTest } from '../../test/support/sidecar.ts';
import { run } from './attack.ts';
import { attacksOn } from './attacks.ts';
import { compressedResponses, respondCompressed } from './compressed.ts';
import { sandboxAttacks } from './sandbox-attacks.ts';
import type { Order } from './setup.ts';

/**
 * The process that runs all attackers and their payment core, separate from the measurement. It sends the origin of its core to its parent,
 * and attacks when it receives an order.
 */

const megabyte = Buffer.alloc(1_048_576, 'x');

function respond(req: IncomingMessage, res: ServerResponse): void {
  const { url } = req;
  if (url === '/api/s2s/quick' || url === '/shop/json') {
    req.resume();
    res.setHeader('Content-Type', 'application/json').end('{}');
  } else if (respondCompressed(url, res)) {
    req.resume();
  } else if (url === '/pay/large') {
    res.writeHead(200, { 'Content-Length': 100 * megabyte.length });
    const fill = (): void => {
      while (!res.destroyed && res.write(megabyte));
    };
    res.on('drain', fill);
    fill();
  } else if (url === '/pay/hints') {
    const flood = setInterval(() => {
      for (let i = 0; i < 100; i += 1) res.writeEarlyHints({ link: '</style.css>; rel=preload; as=style' });
    }, 10);
    res.once('close', () => clearInterval(flood));
  }
}

const core = createServer(respond);
core.on('upgrade', (_req: IncomingMessage, socket: Socket) => {
  socket.on('error', () => {});
  socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
  const fill = (): void => {
    while (!socket.destroyed && socket.write(megabyte));
  };
  socket.on('drain', fill);
  fill();
});
core.listen(0, '127.0.0.1', () => process.send?.(`http://127.0.0.1:${(core.address() as AddressInfo).port}`));

process.once('message', ({ kind, target }: Order) => {
  const attacks = {
    'without a secret key': attacksOn,
    'by compressed responses': compressedResponses,
    'from the sandbox': () => sandboxAttacks(target, acmeTest),
  };
  for (const attack of attacks[kind](target)) run(attack, target);
});
process.once('disconnect', () => process.exit());

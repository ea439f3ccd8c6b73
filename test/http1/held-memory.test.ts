import { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { Incoming } from '../../src/http1/incoming.ts';
import { settle } from '../support/turns.ts';

test('what is left of the held bytes takes little more memory than is charged for it', async () => {
  let requests = 0;
  let charged = 0;
  const incoming = new Incoming({
    socket: new Socket(),
    limits: { maxHeadSize: 16_384, maxFields: 100 },
    onHeadBegins: () => {},
    onHead: () => void (requests += 1),
    onFault: (fault) => expect.fail(fault),
    onBody: () => {},
    onBodyEnd: () => {},
    onSuspend: (resume) => void setImmediate(resume),
    onHeld: (change) => {
      charged += change;
      return true;
    },

    destroy: () => expect.fail('it is destroyed'),
    fail: (error) => expect.fail(String(error)),
  });
  const request = `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(15_000)}\r\n\r\n`;
  incoming.receive(Buffer.from(`${request.repeat(3)}G`));
  for (let i = 0; i < 3; i += 1) {
    await settle();
    if (requests < 3) incoming.expectHead();
  }
  expect(requests).toBe(3);
  expect(charged).toBe(1);
  expect(incoming.take().buffer.byteLength).toBeLessThanOrEqual(2);
});

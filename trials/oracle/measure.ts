import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { classNames, requestOf, type ClassName } from './classes.ts';
import type { Random } from './random.ts';

/** Response times in nanoseconds, in the order in which they were taken. */
export type Times = Readonly<Record<ClassName, readonly number[]>>;

/**
 * Sends this many requests of each class in random order, one at a time on one connection, and measures the time from the first byte of
 * each to the last byte of its response. A tenth as many are sent first as a warm-up, and do not count.
 *
 * @param length the length of the decrypted text with its padding, in bytes
 * @throws if responses differ in more than the request id and the date
 */
export async function measure(port: number, length: number, ofEach: number, random: Random): Promise<Times> {
  const times = Object.fromEntries(classNames.map((name) => [name, [] as number[]])) as Record<ClassName, number[]>;
  const socket = connect(port, '127.0.0.1').setNoDelay(true);
  await once(socket, 'connect');
  try {
    for (const name of inRandomOrder(Math.ceil(ofEach / 10), random)) {
      await exchange(socket, requestOf(name, length, random));
    }
    let expected: string | undefined;
    for (const name of inRandomOrder(ofEach, random)) {
      const { time, response } = await exchange(socket, requestOf(name, length, random));
      const seen = response.replace(requestId, '');
      expected ??= seen;
      if (seen !== expected) throw new Error(`the responses differ:\n${expected}\n${seen}`);
      times[name].push(time);
    }
  } finally {
    socket.destroy();
  }
  return times;
}

function inRandomOrder(ofEach: number, random: Random): ClassName[] {
  return random.shuffle(classNames.flatMap((name) => Array<ClassName>(ofEach).fill(name)));
}

/** The parts in which responses may differ: the request id, in the head and in the body, and the date. */
const requestId = /(?<=\nX-Request-Id: )\S+|(?<="request_id":")[^"]+|(?<=\nDate: )[^\r]+/g;

function exchange(socket: Socket, request: Buffer): Promise<{ time: number; response: string }> {
  return new Promise((resolve, reject) => {
    let response = '';
    const ended = (): void => reject(new Error(`the connection ended after ${JSON.stringify(response)}`));
    const received = (chunk: Buffer): void => {
      const now = process.hrtime.bigint();
      response += chunk.toString('latin1');
      if (!isWhole(response)) return;
      socket.off('data', received).off('close', ended);
      resolve({ time: Number(now - begin), response });
    };
    socket.on('data', received).once('close', ended);
    const begin = process.hrtime.bigint();
    socket.write(request);
  });
}

function isWhole(response: string): boolean {
  const end = response.indexOf('\r\n\r\n');
  const length = /\ncontent-length: (\d+)/i.exec(response)?.[1];
  return end !== -1 && response.length === end + 4 + Number(length);
}

import { connect as connectPlain, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { acmeLive, acmeTest, keys } from '../../test/support/sidecar.ts';

/** The addresses of the sidecar, and the limits that an attack exceeds. */
export interface Target {
  readonly merchants: number;
  readonly admin: number;
  readonly operators: number;
  readonly limits: Readonly<
    Record<'connections' | 'inFlight' | 'header' | 'headers' | 'requestBody' | 'buffered', number>
  >;
}

type Listener = 'merchants' | 'admin' | 'operators';

/** One way to attack the sidecar. */
export interface Attack {
  readonly name: string;
  readonly listener: Listener;
  /** Whether the attack uses TLS. If so, `begin` is called after the handshake. */
  readonly tls?: true;
  readonly sockets: number;
  /** The average time until a connection that has ended is opened again. Milliseconds. */
  readonly pause?: number;
  /** Whether the attack reads responses, which is the default. */
  readonly reads?: false;
  /** The bytes to send on a new connection. */
  readonly begin: (socket: Socket) => void;
  /** The bytes to send after a response. */
  readonly next?: (socket: Socket) => void;
}

/** The pause of attacks that do not set one. Milliseconds. */
const usualPause = 2_000;

/** How long it takes to open all connections for the first time. Milliseconds. */
const ramp = 2_000;

/** The maximum number of unsent bytes that an attacker buffers for one connection. */
const mostWaiting = 65_536;

const closingBrace = 0x7d;

/** The key that every visitor to a shop can read on its page. */
export const visitorsKey = keys.globexPublic.replace('_test_', '_live_');

/**
 * The keys of visitors to other shops. Several are needed, because one shop may use only a small share of the slots.
 */
export const otherVisitorsKeys = ['a', 'b', 'c'].map((letter) => visitorsKey.slice(0, -1) + letter);

/** The sandbox key of the same shop. */
export const visitorsTestKey = keys.globexPublic;

/** The credentials of the visitor's shop, which a developer of the merchant has. */
export const shopCredentials = {
  test: { key: 'm3Rt7yUi1oP9aSd5fGh2jKl8zXc4vBn6', iv: 'Qw7Er3Ty9Ui1Op5A' },
  live: { key: acmeLive.key, iv: acmeTest.iv },
} as const;

/** The host of the environment whose core belongs to the attackers. */
export const attackedHost = 'api.pay.example';

/** Keeps the connections of an attack open, and opens them again when they end. */
export function run(attack: Attack, target: Target): void {
  const { listener, tls, sockets, pause = usualPause, reads, begin, next } = attack;
  const open = (): void => {
    const at = { host: '127.0.0.1', port: target[listener] };
    const socket = tls === true ? connectTls({ ...at, rejectUnauthorized: false }) : connectPlain(at);
    socket.on('error', () => {});
    socket.once('close', () => setTimeout(open, pause * (0.5 + Math.random())));
    socket.once(tls === true ? 'secureConnect' : 'connect', () => {
      if (reads === false) socket.pause();
      // The closing brace is taken for the end of the response. The next request waits for it, because pipelining is a separate attack.
      else socket.on('data', (data: Buffer) => void (data.at(-1) === closingBrace && next?.(socket)));
      begin(socket);
    });
  };
  for (let i = 0; i < sockets; i += 1) setTimeout(open, Math.random() * ramp);
}

/** The request line and the header fields as text. */
export function head(line: string, ...fields: readonly string[]): string {
  return [`${line} HTTP/1.1`, ...fields, '', ''].join('\r\n');
}

/** Sends the text, unless the sidecar still has a lot of earlier text to read. */
export function write(text: string): (socket: Socket) => void {
  return (socket) => void (socket.writableLength < mostWaiting && socket.write(text, 'latin1'));
}

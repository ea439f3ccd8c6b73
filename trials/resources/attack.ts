import { connect as connectPlain, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { keys } from '../../test/support/sidecar.ts';

/** The addresses of the sidecar, and the limits that an attack exceeds. */
export interface Target {
  readonly merchants: number;
  readonly admin: number;
  readonly operators: number;
  readonly limits: Readonly<Record<'connections' | 'inFlight' | 'header' | 'headers', number>>;
}

export type Listener = 'merchants' | 'admin' | 'operators' | 'operators over TLS';

/** One way to attack, and the number of connections at once. */
export interface Attack {
  readonly name: string;
  readonly listener: Listener;
  readonly sockets: number;
  /** Whether it reads responses, which is the default. */
  readonly reads?: false;
  /** The bytes to send on a new connection. */
  readonly begin: (socket: Socket) => void;
  /** The bytes to send after a response. */
  readonly next?: (socket: Socket) => void;
}

/** The average time until an ended connection is opened again. Milliseconds. */
const pause = 2_000;

/** The time in which all connections are opened first. Milliseconds. */
const ramp = 2_000;

const closingBrace = 0x7d;

/** The key that every visitor of a shop can read in its page. */
export const visitorsKey = keys.globexPublic.replace('_test_', '_live_');

/** The host of the environment whose core belongs to the attackers. */
export const attackedHost = 'api.pay.example';

/** Keeps the connections of an attack open, and opens them again when they end. */
export function run({ listener, sockets, reads, begin, next }: Attack, target: Target): void {
  const open = (): void => {
    const port = listener === 'operators over TLS' ? target.operators : target[listener];
    const at = { host: '127.0.0.1', port };
    const socket =
      listener === 'operators over TLS' ? connectTls({ ...at, rejectUnauthorized: false }) : connectPlain(at);
    socket.on('error', () => {});
    socket.once('close', () => setTimeout(open, pause * (0.5 + Math.random())));
    socket.once(listener === 'operators over TLS' ? 'secureConnect' : 'connect', () => {
      if (reads === false) socket.pause();
      // A response ends with its JSON. The next request waits for it, because pipelining is another attack.
      else socket.on('data', (data: Buffer) => void (data.at(-1) === closingBrace && next?.(socket)));
      begin(socket);
    });
  };
  for (let i = 0; i < sockets; i += 1) setTimeout(open, Math.random() * ramp);
}

/** A head as text: request line and header fields. */
export function head(line: string, ...fields: readonly string[]): string {
  return [`${line} HTTP/1.1`, ...fields, '', ''].join('\r\n');
}

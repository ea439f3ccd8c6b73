import { keys } from '../../test/support/sidecar.ts';
import { sealedBy, type MerchantCredentials } from '../load/cipher.ts';
import { head, write, type Attack, type Target } from './attack.ts';

/** The host of the environment `test` when `live` is attacked from it. */
export const sandboxHost = 'sandbox.pay.example';

const host = `Host: ${sandboxHost}`;
const key = `Authorization: Bearer ${keys.acme}`;
const overTls = { listener: 'merchants', tls: true, pause: 100 } as const;

/** The number of requests that are sent at once. It is much larger than the number that the sidecar holds. */
const pipelined = 200;

/**
 * What a single secret key of the sandbox can do to everyone else. The core of the sandbox belongs to the attackers.
 */
export function sandboxAttacks({ limits }: Target, credentials: MerchantCredentials): readonly Attack[] {
  const { requestBody, inFlight, connections } = limits;
  const one = write(head('GET /api/s2s/quick', host, key));
  const many = write(head('GET /api/s2s/quick', host, key).repeat(pipelined));
  // Hex makes a body twice as long.
  const sealed = sealedBy(credentials, JSON.stringify('x'.repeat(requestBody / 2 - 64)));
  const large = head('POST /api/s2s/quick', host, key, `Content-Length: ${sealed.length}`) + sealed;
  const share = (part: number): number => Math.max(2, Math.ceil(part));
  return [
    { ...overTls, name: 'a slow core', sockets: share(inFlight / 8), begin: write(head('GET /pay/silent', host, key)) },
    {
      ...overTls,
      name: 'responses that are not read',
      sockets: share(inFlight / 8),
      reads: false,
      begin: write(head('GET /pay/large', host, key)),
    },
    { ...overTls, name: 'large bodies', sockets: 8, begin: write(large), next: write(large) },
    { ...overTls, name: 'large bodies that lack a byte', sockets: 4, begin: write(large.slice(0, -1)) },
    { ...overTls, name: 'pipelined requests', sockets: 8, begin: many, next: many },
    { ...overTls, name: 'requests without a pause', sockets: 16, begin: one, next: one },
    { ...overTls, name: 'TLS handshakes', sockets: 16, pause: 0, begin: (socket) => void socket.destroy() },
    { ...overTls, name: 'idle connections', sockets: connections / 2, begin: one },
  ];
}

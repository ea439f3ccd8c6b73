import { ServerConnection } from '../../src/http1/connection.ts';
import { Connection } from '../../src/upstream/connection.ts';

type Receive = (this: unknown, bytes: Buffer) => void;

/**
 * Overwrites what was read from a socket as soon as it was received, in all tests of a project: whatever outlives the call must have
 * been copied, or the tests see it damaged.
 */
function overwriteReads(prototype: object): void {
  const receive = Reflect.get(prototype, 'receive') as Receive;
  Reflect.set(prototype, 'receive', function (this: unknown, bytes: Buffer): void {
    try {
      receive.call(this, bytes);
    } finally {
      bytes.fill(0xdb);
    }
  });
}

overwriteReads(ServerConnection.prototype);
overwriteReads(Connection.prototype);

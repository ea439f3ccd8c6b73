import { ServerConnection } from '../../src/http1/connection.ts';
import { Connection } from '../../src/upstream/connection.ts';

type Receive = (this: unknown, bytes: Buffer) => void;

/**
 * In all tests of a project, overwrites the bytes read from a socket as soon as `receive` has returned. Bytes that outlive the call must
 * have been copied; otherwise, the tests see them damaged.
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

import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { connect, type ConnectionOptions } from 'node:tls';
import { onTestFinished } from 'vitest';

/** Records the first TLS record that Node's client sends. */
export async function recordHello(options: ConnectionOptions = {}): Promise<Buffer> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const { port } = server.address() as AddressInfo;
  const client = connect({ port, host: '127.0.0.1', ...options }).on('error', () => {});
  onTestFinished(() => void client.destroy());
  const [socket] = await accepted;
  const [hello] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();
  return hello;
}

/** A vector: the length of the content in so many bytes, then the content. */
export function vector(lengthSize: 1 | 2 | 3, content: Buffer): Buffer {
  const length = Buffer.alloc(lengthSize);
  length.writeUIntBE(content.length, 0, lengthSize);
  return Buffer.concat([length, content]);
}

/** A record with this content. Type 22 is that of handshake messages, and version 1 that of a first message. */
export function record(content: Buffer, type = 22, version = 1): Buffer {
  return Buffer.concat([Buffer.of(type, 3, version), vector(2, content)]);
}

/** A first message with these extensions, by type. */
export function helloWith(...extensions: readonly (readonly [type: number, content: Buffer])[]): Buffer {
  const each = extensions.map(([type, content]) =>
    Buffer.concat([Buffer.of(type >> 8, type & 255), vector(2, content)]),
  );
  const body = Buffer.concat([
    Buffer.of(3, 3),
    Buffer.alloc(32, 7),
    vector(1, Buffer.alloc(32)),
    vector(2, Buffer.of(0x13, 0x01)),
    vector(1, Buffer.of(0)),
    vector(2, Buffer.concat(each)),
  ]);
  return record(Buffer.concat([Buffer.of(1), vector(3, body)]));
}

/** The extension `supported_versions` of a client that offers TLS 1.3. */
export const offersTls13 = [43, vector(1, Buffer.of(3, 4))] as const;

/** The extension `key_share` with shares in these groups. */
export function keyShares(...groups: readonly number[]): readonly [number, Buffer] {
  const shares = groups.map((group) =>
    Buffer.concat([Buffer.of(group >> 8, group & 255), vector(2, Buffer.alloc(32))]),
  );
  return [51, vector(2, Buffer.concat(shares))];
}

/** A first message that is valid except for an extension of unknown type, which makes it as long as this. */
export function helloOf(length: number): Buffer {
  const filled = (size: number): Buffer => helloWith(offersTls13, keyShares(29), [0x7777, Buffer.alloc(size)]);
  return filled(length - (filled(0).length - 5));
}

import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  loadPackageDefinition,
  Server,
  ServerCredentials,
  type sendUnaryData,
  type ServiceClientConstructor,
  type ServerUnaryCall,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { onTestFinished } from 'vitest';
import { Folder } from './folder.ts';

const proto = fileURLToPath(new URL('../kms/kms.proto', import.meta.url));

interface EncryptRequest {
  readonly plaintext: Buffer;
}
interface DecryptRequest {
  readonly ciphertext: Buffer;
  readonly key_id: string;
  readonly annotations: Readonly<Record<string, Buffer>>;
}

type Handler<Request> = (request: Request) => object;

/** A KMS v2 plug-in that uses gRPC's own library and keeps its keys in this process. */
export class TestKms {
  readonly socket: string;
  /** The calls so far: `Status`, `Encrypt`, `Decrypt`. */
  readonly calls: string[] = [];
  /** The annotations that are sent with each wrapped key and expected back. */
  annotations: Readonly<Record<string, Buffer>> = { 'kms.example/label': Buffer.from([0, 255, 10]) };
  healthz = 'ok';
  /** The plaintext that was wrapped last. */
  plaintext: Buffer = Buffer.alloc(0);
  /** Returns what is sent in place of the unwrapped plaintext. */
  spoil: (plaintext: Buffer) => Buffer = (plaintext) => plaintext;
  /** Returns members that replace those of the response to `Encrypt`. */
  misWrap: (plaintext: Buffer) => Partial<DecryptRequest> = () => ({});
  /** The gRPC status with which every call fails; undefined if calls succeed. */
  failure: number | undefined;
  /** Whether calls never get a response. */
  hangs = false;
  readonly #keys = [randomBytes(32)];
  #server: Server | undefined;

  constructor(socket: string) {
    this.socket = socket;
  }

  get keyId(): string {
    return `key-${this.#keys.length}`;
  }

  /** Wraps with a new key from now on. The old keys still unwrap. */
  rotate(): void {
    this.#keys.push(randomBytes(32));
  }

  async start(): Promise<void> {
    const options = { keepCase: true, defaults: true };
    const { v2 } = loadPackageDefinition(loadSync(proto, options)) as unknown as {
      v2: { KeyManagementService: ServiceClientConstructor };
    };
    const server = new Server();
    server.addService(v2.KeyManagementService.service, {
      Status: this.#handler('Status', () => ({ version: 'v2', healthz: this.healthz, key_id: this.keyId })),
      Encrypt: this.#handler('Encrypt', (request: EncryptRequest) => this.#encrypt(request)),
      Decrypt: this.#handler('Decrypt', (request: DecryptRequest) => this.#decrypt(request)),
    });
    await new Promise<void>((resolve, reject) => {
      server.bindAsync(`unix:${this.socket}`, ServerCredentials.createInsecure(), (error) =>
        error === null ? resolve() : reject(error),
      );
    });
    this.#server = server;
  }

  /** Closes its connections and removes its socket. */
  stop(): void {
    this.#server?.forceShutdown();
    rmSync(this.socket, { force: true });
  }

  #handler<Request>(name: string, handle: Handler<Request>) {
    return ({ request }: ServerUnaryCall<Request, object>, done: sendUnaryData<object>): void => {
      this.calls.push(name);
      if (this.hangs) return;
      if (this.failure === undefined) done(null, handle(request));
      else done({ code: this.failure, details: 'no\nsuch key', message: '' });
    };
  }

  #encrypt({ plaintext }: EncryptRequest): object {
    this.plaintext = plaintext;
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', this.#keys.at(-1) ?? '', nonce);
    const ciphertext = Buffer.concat([nonce, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
    return { ciphertext, key_id: this.keyId, annotations: this.annotations, ...this.misWrap(plaintext) };
  }

  #decrypt({ ciphertext, key_id: keyId, annotations }: DecryptRequest): object {
    for (const [name, value] of Object.entries(this.annotations)) {
      if (!value.equals(annotations[name] ?? Buffer.alloc(0))) throw new Error(`annotation ${name} has changed`);
    }
    const key = this.#keys[Number(keyId.slice('key-'.length)) - 1] ?? '';
    const decipher = createDecipheriv('aes-256-gcm', key, ciphertext.subarray(0, 12));
    decipher.setAuthTag(ciphertext.subarray(-16));
    return { plaintext: this.spoil(Buffer.concat([decipher.update(ciphertext.subarray(12, -16)), decipher.final()])) };
  }
}

/** Starts a KMS that runs until the test is over. */
export async function startKms(): Promise<TestKms> {
  const kms = new TestKms(join(new Folder({}).path, 'kms.sock'));
  await kms.start();
  onTestFinished(() => kms.stop());
  return kms;
}

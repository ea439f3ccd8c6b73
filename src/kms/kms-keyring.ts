import { createSecretKey, randomUUID, type KeyObject } from 'node:crypto';
import { AccountsError } from '../accounts/accounts-error.ts';
import type { Keyring, KeyringStatus } from '../accounts/keyring.ts';
import { masterKeyLength, masterKeyOf, type MasterKey } from '../accounts/master-key.ts';
import { formatWrappedKey } from '../accounts/wrapped-key.ts';
import { callUnary, GrpcError } from './grpc.ts';
import { decodeMessage, encodeMessage } from './protobuf.ts';

interface KmsOptions {
  /** Path of the plug-in's Unix socket. */
  readonly socket: string;
  /** Of each call, in milliseconds. */
  readonly timeout: number;
}

type Response = ReturnType<typeof decodeMessage>;

/** Status codes by which a KMS says that it will never do it: a wrong argument, no such key, no permission and the like. */
const definite: ReadonlySet<number> = new Set([3, 5, 7, 9, 12, 16]);

/** A key that a Kubernetes KMS v2 plug-in holds. Numbers of fields are those of its kms.proto. */
export class KmsKeyring implements Keyring {
  readonly #options: KmsOptions;
  readonly #clock: () => number;

  /** @param clock epoch milliseconds */
  constructor(options: KmsOptions, clock: () => number) {
    this.#options = options;
    this.#clock = clock;
  }

  async wrap(key: KeyObject): Promise<string> {
    const plaintext = key.export();
    const request = encodeMessage({ 1: plaintext, 2: randomUUID() });
    plaintext.fill(0);
    const wrapped = await this.#call('Encrypt', request, (response) => ({
      ciphertext: bytesOf(response, 1).toString('base64'),
      keyId: textOf(response, 2),
      annotations: Object.fromEntries(
        response
          .filter(([number]) => number === 3)
          .map(([, bytes]) => {
            const entry = decodeMessage(bytes);
            return [textOf(entry, 1), bytesOf(entry, 2).toString('base64')];
          }),
      ),
    }));
    return formatWrappedKey(wrapped, masterKeyOf(key).kcv, this.#clock());
  }

  async unwrap(key: MasterKey): Promise<MasterKey> {
    if (key.wrapped === undefined) return key;
    const { ciphertext, keyId, annotations } = key.wrapped;
    const entries = Object.entries(annotations).map(([name, value]) =>
      encodeMessage({ 1: name, 2: Buffer.from(value, 'base64') }),
    );
    const request = encodeMessage({ 1: Buffer.from(ciphertext, 'base64'), 2: randomUUID(), 3: keyId, 4: entries });
    return this.#call('Decrypt', request, (response) => {
      const plaintext = bytesOf(response, 1);
      if (plaintext.length !== masterKeyLength) {
        throw this.#wrong(`${plaintext.length} bytes: a master key has ${masterKeyLength}`);
      }
      const opened = masterKeyOf(createSecretKey(plaintext));
      if (opened.kcv !== key.kcv) throw this.#wrong(`another key, KCV ${opened.kcv} instead of ${key.kcv}`);
      return { ...key, key: opened.key };
    });
  }

  async status(): Promise<KeyringStatus> {
    return this.#call('Status', Buffer.alloc(0), (response) => ({
      healthy: textOf(response, 1).startsWith('v2') && textOf(response, 2) === 'ok',
      keyId: textOf(response, 3),
    }));
  }

  async #call<T>(
    method: 'Encrypt' | 'Decrypt' | 'Status',
    request: Buffer,
    read: (response: Response) => T,
  ): Promise<T> {
    const { socket, timeout } = this.#options;
    try {
      const path = `/v2.KeyManagementService/${method}`;
      return await callUnary(socket, path, request, timeout, (message) => read(decodeMessage(message)));
    } catch (error) {
      if (!(error instanceof GrpcError)) throw error;
      const text = `${method} of the KMS at ${socket} failed: ${error.message} (gRPC ${error.status})`;
      throw new AccountsError(definite.has(error.status) ? 'kms_refused' : 'kms_unavailable', text);
    }
  }

  #wrong(what: string): AccountsError {
    return new AccountsError('master_key_wrong', `the KMS at ${this.#options.socket} has opened ${what}`);
  }
}

/** A field's bytes. It is absent if it is empty; if it stands twice, the last one counts. */
function bytesOf(message: Response, number: number): Buffer {
  return message.findLast(([each]) => each === number)?.[1] ?? Buffer.alloc(0);
}

function textOf(message: Response, number: number): string {
  return bytesOf(message, number).toString();
}

import { createSecretKey, randomUUID, type KeyObject } from 'node:crypto';
import { AccountsError } from '../accounts/accounts-error.ts';
import type { Keyring, KeyringStatus } from '../accounts/keyring.ts';
import { masterKeyOf, type MasterKey } from '../accounts/master-key.ts';
import { formatWrappedKey } from '../accounts/wrapped-key.ts';
import { callUnary, GrpcError } from './grpc.ts';
import { decodeMessage, encodeMessage, type Field } from './protobuf.ts';

interface KmsOptions {
  /** Path of the plug-in's Unix socket. */
  readonly socket: string;
  /** Of each call, in milliseconds. */
  readonly timeout: number;
}

/** Status codes by which a KMS says that it will never do it: a wrong argument, no such key, no permission and the like. */
const definite: ReadonlySet<number> = new Set([3, 5, 7, 9, 12, 16]);

const masterKeyLength = 32;

/** A key that a Kubernetes KMS v2 plug-in holds. */
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
    const request = encodeMessage([
      [1, plaintext],
      [2, randomUUID()],
    ]);
    plaintext.fill(0);
    const response = await this.#call('Encrypt', request);
    request.fill(0);
    const annotations = response
      .filter(([number]) => number === 3)
      .map(([, entry]) => {
        const pair = this.#decoded(entry);
        return [textOf(pair, 1), bytesOf(pair, 2).toString('base64')] as const;
      });
    const wrapped = {
      ciphertext: bytesOf(response, 1).toString('base64'),
      keyId: textOf(response, 2),
      annotations: Object.fromEntries(annotations),
    };
    return formatWrappedKey(wrapped, masterKeyOf(key).kcv, this.#clock());
  }

  async unwrap(key: MasterKey): Promise<MasterKey> {
    if (key.wrapped === undefined) return key;
    const { ciphertext, keyId, annotations } = key.wrapped;
    const entries = Object.entries(annotations).map(([name, value]): Field => [
      4,
      encodeMessage([
        [1, name],
        [2, Buffer.from(value, 'base64')],
      ]),
    ]);
    const request = encodeMessage([[1, Buffer.from(ciphertext, 'base64')], [2, randomUUID()], [3, keyId], ...entries]);
    const plaintext = bytesOf(await this.#call('Decrypt', request), 1);
    if (plaintext.length !== masterKeyLength) {
      throw wrong(`the KMS at ${this.#options.socket} has opened ${plaintext.length} bytes: a master key has 32`);
    }
    const opened = masterKeyOf(createSecretKey(plaintext));
    plaintext.fill(0);
    if (opened.kcv !== key.kcv) {
      throw wrong(`the KMS at ${this.#options.socket} has opened another key, KCV ${opened.kcv} instead of ${key.kcv}`);
    }
    return { ...key, key: opened.key };
  }

  async status(): Promise<KeyringStatus> {
    const response = await this.#call('Status', Buffer.alloc(0));
    return {
      healthy: textOf(response, 1).startsWith('v2') && textOf(response, 2) === 'ok',
      keyId: textOf(response, 3),
    };
  }

  async #call(method: 'Encrypt' | 'Decrypt' | 'Status', request: Buffer): Promise<Fields> {
    const { socket, timeout } = this.#options;
    try {
      return this.#decoded(await callUnary(socket, `/v2.KeyManagementService/${method}`, request, timeout));
    } catch (error) {
      if (!(error instanceof GrpcError)) throw error;
      const code = definite.has(error.status) ? 'kms_refused' : 'kms_unavailable';
      throw new AccountsError(
        code,
        `${method} of the KMS at ${socket} failed: ${error.message} (gRPC ${error.status})`,
      );
    }
  }

  #decoded(message: Buffer): Fields {
    try {
      return decodeMessage(message);
    } catch (error) {
      const { socket } = this.#options;
      throw new AccountsError(
        'kms_unavailable',
        `the KMS at ${socket} has sent no message: ${(error as Error).message}`,
      );
    }
  }
}

type Fields = ReturnType<typeof decodeMessage>;

/** A field's bytes. It is absent if it is empty; if it stands twice, the last one counts. */
function bytesOf(fields: Fields, number: number): Buffer {
  return fields.findLast(([each]) => each === number)?.[1] ?? Buffer.alloc(0);
}

function textOf(fields: Fields, number: number): string {
  return bytesOf(fields, number).toString();
}

function wrong(message: string): AccountsError {
  return new AccountsError('master_key_wrong', message);
}

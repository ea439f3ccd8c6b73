import { createSecretKey, randomUUID, type KeyObject } from 'node:crypto';
import { AccountsError } from '../accounts/accounts-error.ts';
import type { Keyring, KeyringStatus } from '../accounts/keyring.ts';
import { masterKeyLength, masterKeyOf, type MasterKey } from '../accounts/master-key.ts';
import { formatWrappedKey } from '../accounts/wrapped-key.ts';
import { call, type Plugin } from './grpc.ts';
import { decodeMessage, encodeMessage, type Message } from './protobuf.ts';

/** A key that a Kubernetes KMS v2 plug-in holds. Numbers of fields are those of its kms.proto. */
export class KmsKeyring implements Keyring {
  readonly #plugin: Plugin;
  readonly #clock: () => number;

  /** @param clock epoch milliseconds */
  constructor(plugin: Plugin, clock: () => number) {
    this.#plugin = plugin;
    this.#clock = clock;
  }

  async wrap(key: KeyObject): Promise<string> {
    const plaintext = key.export();
    const request = encodeMessage(plaintext, randomUUID());
    plaintext.fill(0);
    return call(this.#plugin, 'Encrypt', request, (response) => {
      const annotations = response
        .filter(([number]) => number === 3)
        .map(([, bytes]) => decodeMessage(bytes))
        .map((entry) => [textOf(entry, 1), bytesOf(entry, 2).toString('base64')]);
      return formatWrappedKey({
        key_id: textOf(response, 2),
        ciphertext: bytesOf(response, 1).toString('base64'),
        annotations: Object.fromEntries(annotations),
        kcv: masterKeyOf(key).kcv,
        created_at: new Date(this.#clock()).toISOString(),
      });
    });
  }

  async unwrap(key: MasterKey): Promise<MasterKey> {
    if (key.wrapped === undefined) return key;
    const { ciphertext, key_id: keyId, annotations } = key.wrapped;
    const entries = Object.entries(annotations).map((entry) =>
      encodeMessage(entry[0], Buffer.from(entry[1], 'base64')),
    );
    const request = encodeMessage(Buffer.from(ciphertext, 'base64'), randomUUID(), keyId, entries);
    return call(this.#plugin, 'Decrypt', request, (response) => {
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
    return call(this.#plugin, 'Status', encodeMessage(), (response) => ({
      healthy: textOf(response, 1).startsWith('v2') && textOf(response, 2) === 'ok',
      keyId: textOf(response, 3),
    }));
  }

  #wrong(what: string): AccountsError {
    return new AccountsError('master_key_wrong', `the KMS at ${this.#plugin.socket} has opened ${what}`);
  }
}

/** A field's bytes. It is absent if it is empty; if it stands twice, the last one counts. */
function bytesOf(message: Message, number: number): Buffer {
  return message.findLast(([each]) => each === number)?.[1] ?? Buffer.alloc(0);
}

function textOf(message: Message, number: number): string {
  return bytesOf(message, number).toString();
}

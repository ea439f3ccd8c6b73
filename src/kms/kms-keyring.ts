import { createSecretKey, randomUUID } from 'node:crypto';
import { AccountsError } from '../accounts/accounts-error.ts';
import type { Keyring } from '../accounts/keyring.ts';
import { createMasterKey, masterKeyLength, parseMasterKeys, type MasterKey } from '../accounts/master-key.ts';
import { formatWrappedKey } from '../accounts/wrapped-key.ts';
import { call, decodeMessage, encodeMessage, readField, type Plugin } from './grpc.ts';

/** A keyring whose key is in a Kubernetes KMS v2 plug-in. Field numbers are from the KMS v2 kms.proto. @param clock epoch milliseconds */
export function kmsKeyring(plugin: Plugin, clock: () => number): Keyring {
  const wrong = (what: string): AccountsError =>
    new AccountsError('master_key_wrong', `the KMS at ${plugin.socket} has ${what}`);
  const unwrap = async (key: MasterKey): Promise<MasterKey> => {
    if (key.wrapped === undefined) return key;
    const { ciphertext, key_id: keyId, annotations } = key.wrapped;
    const pairs = Object.entries(annotations).map(([name, text]) => encodeMessage([name, Buffer.from(text, 'base64')]));
    return call(plugin, 'Decrypt', [Buffer.from(ciphertext, 'base64'), randomUUID(), keyId, pairs], (response) => {
      const plaintext = readField(response, 1);
      if (plaintext.length !== masterKeyLength)
        throw wrong(`opened ${plaintext.length} bytes: a master key has ${masterKeyLength}`);
      const opened = createMasterKey(createSecretKey(plaintext));
      if (opened.kcv !== key.kcv) throw wrong(`opened a different key, KCV ${opened.kcv} instead of ${key.kcv}`);
      return { ...key, key: opened.key };
    });
  };
  return {
    async wrap(key) {
      const exported = key.export();
      const line = await call(plugin, 'Encrypt', [exported, randomUUID()], (response) => {
        if (response.some(([, field]) => field.includes(exported))) throw wrong('returned the key in the clear');
        const annotations = response.filter(([number]) => number === 3).map(([, entry]) => decodeMessage(entry));
        return formatWrappedKey({
          key_id: String(readField(response, 2)),
          ciphertext: readField(response, 1).toString('base64'),
          annotations: Object.fromEntries(
            annotations.map((entry) => [String(readField(entry, 1)), readField(entry, 2).toString('base64')]),
          ),
          kcv: createMasterKey(key).kcv,
          created_at: new Date(clock()).toISOString(),
        });
      });
      const [wrapped] = parseMasterKeys(line) ?? [];
      if (wrapped === undefined) throw wrong('returned no ciphertext, or no name of its key');
      // Make sure that the line can be unwrapped, because the line may replace the only copy of the key.
      await unwrap(wrapped);
      return line;
    },
    unwrap,
    status: () =>
      call(plugin, 'Status', [], (response) => ({
        healthy: String(readField(response, 1)).startsWith('v2') && String(readField(response, 2)) === 'ok',
        keyId: String(readField(response, 3)),
      })),
  };
}

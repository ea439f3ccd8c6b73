import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { EnvelopeCodec, OpenContext, OpenReason } from '../../src/envelope/codec.ts';
import { send } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { acme, acmeTest, codecOf, configOf, globex, keys } from '../support/sidecar.ts';

/**
 * A second format, `<nonce>.<base64>`, whose envelopes open only once. The codec remembers nonces in the memory of the account, and
 * opens envelopes asynchronously, as a codec that asks a device would.
 */
class OnceCodec implements EnvelopeCodec {
  readonly waits = true;
  readonly fingerprint = '0123456789abcdef';
  readonly #aes = codecOf(acmeTest);

  async open(data: Buffer, { memory }: OpenContext): Promise<Buffer | OpenReason> {
    await sleep(5);
    const [nonce = '', text = ''] = data.toString().split('.');
    const seen = (memory().get('once') ?? new Set()) as Set<string>;
    memory().set('once', seen);
    if (seen.has(nonce)) return 'encoding';
    seen.add(nonce);
    return Buffer.from(text, 'base64');
  }

  hint(): string {
    return 'sent before';
  }

  seal(plaintext: Buffer): string {
    return `{"data":"sealed.${plaintext.toString('base64')}"}`;
  }

  sealedLength(length: number): number {
    return this.seal(Buffer.alloc(length)).length;
  }

  stream() {
    let all = Buffer.alloc(0);
    return {
      update: (chunk: Buffer) => {
        all = Buffer.concat([all, chunk]);
        return '';
      },
      end: () => this.seal(all),
    };
  }

  pack() {
    return this.#aes.pack();
  }
}

/** Accounts with newly created codecs, as after each reload. */
function accounts() {
  const encryption = () => ({ type: 'on', current: new OnceCodec(), createdAt: undefined, grace: undefined }) as const;
  return [
    { ...acme, encryption: { test: encryption(), live: encryption() } },
    { ...globex, encryption: { test: encryption() } },
  ];
}

const hosts = { test: { host: 'sandbox.pay.example' }, live: { host: 'api.pay.example' } };
const envelope = (nonce: string) => `{"data":"${nonce}.${Buffer.from('{"amount":1}').toString('base64')}"}`;

test('a format that refuses replays remembers nonces by account and environment, also after a reload', async () => {
  const { sidecar, upstream } = await startGateway({ serves: 'both', accounts: accounts() });
  const charge = (key: string, headers: { host: string }, nonce: string) =>
    send(sidecar, 'POST /api/s2s/charge', { key, headers, body: envelope(nonce) });

  const first = await charge(keys.acme, hosts.test, 'n1');
  expect(first.status).toBe(200);
  expect(first.body).toMatch(/^\{"data":"sealed\./);
  await expect.poll(() => upstream.seen.map(({ body }) => body)).toEqual(['{"amount":1}']);

  const again = await charge(keys.acme, hosts.test, 'n1');
  expect(JSON.parse(again.body)).toMatchObject({ code: 'decryption_failed', hint: 'sent before' });
  // Apply the same environments with newly created codecs, as a reload does. The nonces must still be remembered.
  const { environments } = sidecar.app.settings;
  sidecar.app.apply({ ...configOf(upstream.origin, { accounts: accounts() }), environments });
  expect((await charge(keys.acme, hosts.test, 'n1')).status).toBe(400);
  expect(upstream.seen).toHaveLength(1);

  for (const [key, host, nonce] of [
    [keys.acme, hosts.test, 'n2'],
    [keys.globex, hosts.test, 'n1'],
    [keys.acmeLive, hosts.live, 'n1'],
  ] as const)
    expect((await charge(key, host, nonce)).status).toBe(200);
  expect(upstream.seen).toHaveLength(4);
});

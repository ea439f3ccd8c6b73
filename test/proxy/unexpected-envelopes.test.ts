import { expect, test } from 'vitest';
import { envelopeOf, send } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { acmeTest, keys } from '../support/sidecar.ts';

const name = 'envelope_sidecar_unexpected_envelopes_total';
const envelope = envelopeOf(acmeTest, '{}');
const inBase64 = `{"data":"${Buffer.alloc(16, 1).toString('base64')}"}`;

async function start() {
  const { sidecar, upstream } = await startGateway();
  const counted = async (): Promise<number> => {
    const metric = await sidecar.registry.getSingleMetric(name)?.get();
    return metric?.values.find(({ labels }) => labels['environment'] === 'test')?.value ?? 0;
  };
  return { upstream, sidecar, counted };
}

test.each([
  ['hex', envelope],
  ['base64', inBase64],
  ['white space', envelope.replace('{', ' {\n ').replace(':', ' : ')],
])(
  'an envelope from an account that does not encrypt, with %s, is forwarded unchanged and counted',
  async (_, body) => {
    const { upstream, sidecar, counted } = await start();
    expect((await send(sidecar, 'POST /api/s2s/charge', { key: keys.globex, body })).status).toBe(200);
    expect(upstream.seen.map((seen) => seen.body)).toEqual([body]);
    expect(await counted()).toBe(1);
  },
);

test.each([
  ['plaintext', 'POST /api/s2s/charge', keys.globex, '{"amount":1}'],
  ['a short text as data', 'POST /api/s2s/charge', keys.globex, '{"data":"aaaaaaaaaaaaaaaaaaaaa"}'],
  ['another member first', 'POST /api/s2s/charge', keys.globex, `{"id":1,${envelope.slice(1)}`],
  ['a route without envelopes', 'POST /other', keys.globex, envelope],
  ['an account that encrypts', 'POST /api/s2s/charge', keys.acme, envelope],
])('%s is not counted', async (_, line, key, body) => {
  const { sidecar, counted } = await start();
  expect((await send(sidecar, line, { key, body })).status).toBe(200);
  expect(await counted()).toBe(0);
});

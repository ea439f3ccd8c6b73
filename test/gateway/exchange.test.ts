import { expect, test } from 'vitest';
import { openEnvelope, sealEnvelope } from '../../src/envelope/envelope.ts';
import { acmeTest, configOf, credentialsOf, keys, startSidecar } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

const credentials = credentialsOf(acmeTest);

test('opens the envelope for the upstream and seals its answer for the merchant', async () => {
  const upstream = await startUpstream();
  const sidecar = await startSidecar(configOf(upstream.origin));
  const plaintext = '{ "amount":  1000, "digits": 12345678901234567890.10 }';

  const answer = await fetch(`${sidecar.url}/api/s2s/charge`, {
    method: 'POST',
    headers: { authorization: `Bearer ${keys.acme}`, 'content-type': 'application/json' },
    body: sealEnvelope(Buffer.from(plaintext), credentials, 'hex'),
  });

  expect(upstream.seen[0]?.body).toBe(plaintext);
  expect(answer.status).toBe(200);
  expect(answer.headers.get('envelope')).toBe('sealed');
  const opened = openEnvelope(Buffer.from(await answer.text()), [credentials]);
  expect('plaintext' in opened && opened.plaintext.toString()).toBe('{"ok":true}');
  console.log(upstream.seen[0]?.rawHeaders, [...answer.headers]);
  console.log(sidecar.log, await (await fetch(sidecar.adminUrl + '/metrics')).text());
});

/** Tests what the vectors cannot express. `node --test kits/typescript/test.ts`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Envelope, EnvelopeError, selftest } from './envelope.ts';
import { envelopeFetch, OutcomeUnknown } from './fetch.ts';

const demo = { key: 'demo-key-of-acme-not-a-secret-32', iv: 'demo-iv-of-acme-' };
const envelope = new Envelope(demo);
const hasCode = (code: string) => (error: unknown) => error instanceof EnvelopeError && error.code === code;

void test('the self-test passes', () => assert.equal(selftest(), 8));

void test('a value comes back as it was', () => {
  const value = { amount: 1500, name: 'Zoë', list: [null, true] };
  assert.deepEqual(envelope.openJson(envelope.sealJson(value)), value);
  assert.equal(envelope.openBody(` {"data" : "${envelope.seal('{}')}"}\n`), '{}');
});

void test('what has no JSON is not sealed', () =>
  assert.throws(() => envelope.sealJson(undefined), hasCode('not_json')));

void test('half of a surrogate pair is not sealed', () =>
  assert.throws(() => envelope.seal('\ud83d'), hasCode('not_utf8')));

void test('a plaintext that is not JSON opens as text only', () => {
  const data = envelope.seal('{"a":');
  assert.equal(envelope.open(data), '{"a":');
  assert.throws(() => envelope.openJson(data), hasCode('not_json'));
});

void test('a byte order mark is kept', () => assert.equal(envelope.open(envelope.seal('\ufeff{}')), '\ufeff{}'));

for (const body of [
  '{}',
  '[]',
  '{"data":1}',
  '{"data":"00","a":1}',
  '{"data":"00","data":"00"}',
  '{"Data":"00"}',
  '',
]) {
  void test(`${body || 'an empty body'} is no envelope`, () => {
    assert.throws(() => envelope.openBody(body), hasCode('malformed'));
  });
}

void test('bytes are refused as a key', () => {
  assert.throws(
    () => new Envelope({ ...demo, key: Buffer.from(demo.key) as unknown as string }),
    hasCode('key_decoded'),
  );
});

void test('a body that is not UTF-8 is not sent', async () => {
  let sent = 0;
  const send = envelopeFetch({
    envelope: () => envelope,
    fetch: () => {
      sent += 1;
      return Promise.resolve(new Response());
    },
  });
  const request = { method: 'POST', body: new Uint8Array([0x22, 0xe9, 0x22]) };
  await assert.rejects(send('http://127.0.0.1/api/s2s/charge', request), hasCode('not_utf8'));
  assert.equal(sent, 0);
});

void test('another X-Request-Id passes behind a gateway that replaces it', async () => {
  const headers = { Envelope: 'sealed', 'X-Request-Id': 'another' };
  const respond = (): Promise<Response> => Promise.resolve(new Response(envelope.sealBody('{}'), { headers }));
  const call = (checkId: boolean) =>
    envelopeFetch({ envelope: () => envelope, fetch: respond, checkId })('http://127.0.0.1/api/s2s/x');
  await assert.rejects(call(true), (error) => error instanceof OutcomeUnknown && error.reason === 'swapped');
  assert.equal(await (await call(false)).text(), '{}');
});

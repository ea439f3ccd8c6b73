import { describe, expect, test, vi } from 'vitest';
import { envelopeOf, opened, send } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { acmeTest, keys } from '../support/sidecar.ts';
import { openConnection } from '../support/connection.ts';

const charge = 'POST /api/s2s/charge';
const mebibyte = 1 << 20;

describe('a body of a mebibyte', () => {
  test.each([
    ['of open brackets', '['.repeat(mebibyte), 'envelope_malformed'],
    ['of nested arrays', '['.repeat(mebibyte / 2) + ']'.repeat(mebibyte / 2), 'envelope_required'],
    ['of empty objects', `[${'{},'.repeat(mebibyte / 3 - 2)}{}]`, 'envelope_required'],
    ['that is one string', `"${'{'.repeat(mebibyte - 2)}"`, 'envelope_required'],
    ['with very many members', `{${'"a":[],'.repeat(mebibyte / 7 - 2)}"b":1}`, 'envelope_required'],
  ] as const)('%s is refused, and nothing of it is built', async (_, body, code) => {
    const parse = vi.spyOn(JSON, 'parse');
    const { sidecar, upstream } = await startGateway();
    const response = await send(sidecar, charge, { key: keys.acme, body });
    const longest = Math.max(0, ...parse.mock.calls.map(([text]) => text.length));
    parse.mockRestore();
    expect(response.status).toBe(400);
    expect(JSON.parse(response.body)).toMatchObject({
      code,
      hint: 'no hint for a body above 64 KiB: try a shorter one',
    });
    expect(upstream.heads()).toBe(0);
    expect(longest).toBeLessThan(4_096);
  });

  test('opens, and short ones are served in between', async () => {
    const { sidecar, upstream } = await startGateway();
    const plaintext = JSON.stringify({ note: 'a'.repeat(mebibyte / 2 - 100) });
    const body = envelopeOf(acmeTest, plaintext);
    const [long, other, short] = await Promise.all([
      send(sidecar, charge, { key: keys.acme, body }),
      send(sidecar, charge, { key: keys.acme, body }),
      send(sidecar, charge, { key: keys.acme, body: envelopeOf(acmeTest, '{"short":true}') }),
    ]);
    for (const response of [long, other, short]) expect(() => opened(acmeTest, response)).not.toThrow();
    const bodies = upstream.seen.map((seen) => seen.body);
    expect(bodies.filter((each) => each === plaintext)).toHaveLength(2);
    expect(bodies).toContain('{"short":true}');
  });

  test('is not forwarded if its client leaves while it is opened', async () => {
    const { sidecar, upstream } = await startGateway();
    const body = envelopeOf(acmeTest, JSON.stringify('a'.repeat(mebibyte / 2 - 100)));
    const client = await openConnection(sidecar.port);
    client.send(
      `POST /api/s2s/charge HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.acme}\r\n` +
        `Content-Length: ${body.length}\r\n\r\n${body}`,
    );
    client.socket.end();
    await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(1));
    expect(sidecar.accessLines()[0]).toMatchObject({ status: 499 });
    expect(upstream.heads()).toBe(0);
  });
});

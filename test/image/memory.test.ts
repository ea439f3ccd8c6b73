import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { Network, getContainerRuntimeClient } from 'testcontainers';
import { expect, onTestFinished, test } from 'vitest';
import { envelopeOf, send, type Response } from '../support/client.ts';
import { describeUnless } from '../support/describe-unless.ts';
import { eventually } from '../support/eventually.ts';
import { workedExamples } from '../support/memory-bound.ts';
import {
  MountedFolder,
  SidecarContainer,
  buildImage,
  coreContainer,
  missingEngine,
  removeContainers,
  smallEntrypoint,
} from './containers.ts';

const key = 'sk_test_image_acme_not_a_secret';
const credentials = { key: 'image-key-of-acme-not-a-secret-3', iv: 'image-iv-of-acme' };

const accountsFile = {
  accounts: [
    {
      id: 'acme',
      name: 'Acme Stores',
      keys: [{ id: 'acme-0', key, createdAt: '2026-11-01' }],
      encryption: { test: { enabled: true, ...credentials } },
    },
  ],
};

/** Opens a connection, which is closed after the test, and sends `sent`. The other side may close the connection in any way. */
async function openWith(port: number, ...sent: readonly string[]): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').on('error', () => {});
  onTestFinished(() => void socket.destroy());
  for (const part of sent) socket.write(part, 'latin1');
  await eventually('the connection is open', () => !socket.connecting, { timeout: 10_000, interval: 1 });
  return socket;
}

describeUnless(
  await missingEngine(),
  'the image, with the limits that docs/operators/capacity.md works out for 128 MiB',
  () => {
    test('stays within 128 MiB with every limit reached at once, reloads, and serves afterwards', async () => {
      const [, example] = workedExamples(readFileSync('docs/operators/capacity.md', 'utf8'));
      if (example === undefined) throw new Error('there is no such example');
      const { requestBody, buffered, header, inFlight, connections } = example;
      const config = new MountedFolder({
        'sidecar.yaml': JSON.stringify({
          listen: { host: '0.0.0.0', port: 8080 },
          environments: { test: { upstream: 'http://core:3000' } },
          accounts: { file: '/run/secrets/envelope-sidecar/accounts.yaml' },
          routes: [{ path: '/api/s2s/*', envelope: true }],
          limits: { requestBody, buffered, header, inFlight, account: '100%' },
          // Nothing may time out before all limits are reached.
          timeouts: { header: '10m', request: '10m', upstream: '10m', idle: '10m' },
        }),
      });
      const accounts = new MountedFolder({ 'accounts.yaml': JSON.stringify(accountsFile) });
      onTestFinished(() => [config, accounts].forEach((folder) => folder.remove()));
      const image = buildImage();
      const network = await new Network().start();
      onTestFinished(async () => {
        removeContainers();
        await network.stop();
      });
      await coreContainer(image, network).start();
      const limited = new SidecarContainer(image, network, config, accounts)
        .withEntrypoint(smallEntrypoint)
        .withResourcesQuota({ memory: 128 / 1_024 });
      const sidecar = await limited.start();
      const { container: engine } = await getContainerRuntimeClient();
      const state = async () => (await engine.inspect(engine.getById(sidecar.getId()))).State;

      const port = sidecar.getMappedPort(8080);
      const metrics = async (): Promise<string> =>
        (await send({ port: sidecar.getMappedPort(9090) }, 'GET /metrics')).body;
      const untilInFlight = async (count: number): Promise<void> => {
        const line = `\nenvelope_sidecar_requests_in_flight ${count}\n`;
        await eventually(`the metrics have ${line}`, async () => (await metrics()).includes(line), {
          timeout: 30_000,
          interval: 100,
        });
      };
      const clients: Socket[] = [];
      const open = async (...sent: readonly string[]): Promise<Socket> => {
        const socket = await openWith(port, ...sent);
        clients.push(socket);
        return socket;
      };
      const sendsKey = `Host: a\r\nAuthorization: Bearer ${key}\r\n`;
      const charge = (body: string): Promise<Response> => send({ port }, 'POST /api/s2s/charge', { key, body });

      // Send incomplete heads. Those of almost the maximum length fill half of the memory for clients without a valid key, which is an
      // eighth of `buffered`.
      const line = `X-Padding: ${'x'.repeat(1_000)}\r\n`;
      const endless = `GET /x HTTP/1.1\r\n${line.repeat(Math.floor(header / line.length) - 1)}`;
      const longest = buffered / 16 / header;
      for (let i = inFlight; i < connections; i += 1) await open(i < inFlight + longest ? endless : 'GET /x HT');

      // Send envelopes of almost the maximum length until no other one fits. They stay in memory, because the core does not respond.
      const padding = 'x'.repeat(requestBody / 2 - 8_192);
      const envelope = envelopeOf(credentials, JSON.stringify({ padding }));
      const forAll = (buffered * 7) / 8;
      const held = Math.floor(forAll / envelope.length);
      expect(held * envelope.length).toBeGreaterThan(forAll - requestBody / 2);
      const length = `Content-Length: ${envelope.length}\r\n\r\n`;
      const silent = `POST /api/s2s/charge?delay=600000 HTTP/1.1\r\n${sendsKey}${length}`;
      for (let i = 0; i < held; i += 1) await open(silent, envelope);
      await untilInFlight(held);

      // Send bodies without a key that lack only their last byte, until they fill the other half of that eighth.
      const mostTested = 65_536;
      const keyless = Math.floor(buffered / 16 / mostTested) - 1;
      expect(keyless).toBeGreaterThan(0);
      const cipherTest = `key: ${'k'.repeat(32)}\r\niv: ${'i'.repeat(16)}\r\n`;
      const unfinished = `POST /api/s2s/aes-encrypt HTTP/1.1\r\nHost: a\r\n${cipherTest}Content-Length: ${mostTested}\r\n\r\n`;
      for (let i = 0; i < keyless; i += 1) await open(unfinished, 'x'.repeat(mostTested - 1));
      await untilInFlight(held + keyless);
      expect((await charge(envelope)).status).toBe(503);

      // Request long responses, and do not read them.
      const unread = `GET /api/s2s/export?size=50000000 HTTP/1.1\r\n${sendsKey}\r\n`;
      // Incomplete bodies do not occupy slots yet, so only the envelopes are subtracted.
      for (let i = held; i < inFlight; i += 1) (await open(unread)).pause();
      await untilInFlight(inFlight + keyless);
      expect((await send({ port }, 'GET /x', { key })).status).toBe(503);

      accounts.write({ 'accounts.yaml': JSON.stringify(accountsFile) });
      const reloaded = 'envelope_sidecar_config_reloads_total{file="accounts",outcome="ok"} 1';
      await eventually('the configuration is reloaded', async () => (await metrics()).includes(reloaded), {
        timeout: 30_000,
        interval: 100,
      });
      expect(await state()).toMatchObject({ Running: true, OOMKilled: false });

      for (const client of clients) client.destroy();
      await untilInFlight(0);
      for (let i = 0; i < held; i += 1) expect((await charge(envelope)).status).toBe(200);
      expect(await state()).toMatchObject({ Running: true, OOMKilled: false });
    }, 300_000);
  },
);

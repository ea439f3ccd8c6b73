import { createDecipheriv } from 'node:crypto';
import { Agent, request } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { envelopeOf, send } from '../support/client.ts';
import { startServe } from '../support/command.ts';
import { openConnection, parseOnly } from '../support/connection.ts';
import { accountsFile, acmeEntry, globexEntry, MountedFolder, sidecarFile, type Contents } from '../support/folder.ts';
import { acmeLive, acmeTest, keys } from '../support/sidecar.ts';
import { startUpstream, type TestUpstream } from '../support/upstream.ts';
import { untilSample } from '../telemetry/samples.ts';

const reloads = 30;
const connections = 8;
/** Milliseconds between two requests on a connection. Together, the connections send several hundred requests a second. */
const pause = 10;

interface Version {
  readonly name: 'one' | 'two';
  readonly credentials: { readonly key: string; readonly iv: string };
  readonly upstream: TestUpstream;
}

/** Starts an upstream that responds with its name and the id of the API key. */
async function upstreamOf(name: string): Promise<TestUpstream> {
  return startUpstream(({ headers }, res) => {
    const body = `${name} ${String(headers['x-api-key-id'])}`;
    res.writeHead(200, { 'Content-Length': body.length, 'X-Upstream': name }).end(body);
  });
}

/** The upstream, key ids and credentials carry the version's name. @param previous credentials in a grace period */
function contentsOf({ name, credentials, upstream }: Version, previous?: Version['credentials']): Contents {
  const key = (apiKey: string): object => ({ id: `key-${name}`, key: apiKey, createdAt: '2026-11-01' });
  const plainKey = { ...key(keys.globex), id: `plain-${name}` };
  const grace = previous && { previous: { ...previous, until: '2100-01-01' } };
  return {
    'sidecar.yaml': sidecarFile(upstream.origin),
    'accounts.yaml': accountsFile(
      { ...acmeEntry, keys: [key(keys.acme)], encryption: { test: { enabled: true, ...credentials, ...grace } } },
      { ...globexEntry(), keys: [plainKey] },
    ),
  };
}

function get(agent: Agent, port: number, path: string, key: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const headers = { Authorization: `Bearer ${key}` };
    request({ agent, host: '127.0.0.1', port, path, headers }, (res) => {
      let body = '';
      res.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
      res.on('error', reject).on('end', () => resolve({ status: res.statusCode ?? 0, body }));
    })
      .on('error', reject)
      .end();
  });
}

function openedWith({ key, iv }: Version['credentials'], body: string): string | undefined {
  try {
    const { data } = JSON.parse(body) as { data: string };
    const decipher = createDecipheriv('aes-256-cbc', key, iv);
    return decipher.update(data, 'hex', 'utf8') + decipher.final('utf8');
  } catch {
    return undefined;
  }
}

test('a request in flight during a reload keeps its upstream, and its credentials if they are still valid', async () => {
  const versions: readonly [Version, Version] = [
    { name: 'one', credentials: acmeTest, upstream: await upstreamOf('one') },
    { name: 'two', credentials: acmeLive, upstream: await upstreamOf('two') },
  ];
  const [one, two] = versions;
  const folder = new MountedFolder(contentsOf(one));
  const sidecar = await startServe(folder.file('sidecar.yaml'));
  const body = envelopeOf(one.credentials, '{"amount":1}');
  const client = await openConnection(sidecar.port);
  client.send(
    `POST /api/s2s/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.acme}\r\nContent-Length: ${body.length}\r\n\r\n`,
  );
  client.send(body.slice(0, 20));
  await untilSample(sidecar, 'envelope_sidecar_requests_in_flight', 1);

  folder.swap(contentsOf(two, one.credentials));
  await sidecar.untilEntries('configuration reloaded');
  expect((await send(sidecar, 'GET /x', { key: keys.globex })).body).toBe('two plain-two');

  client.send(body.slice(20));
  const response = parseOnly(await client.until((received) => received.endsWith('"}')));
  expect(response.status).toBe(200);
  expect(openedWith(one.credentials, response.body)).toBe('one key-one');
});

test('no request fails during 30 reloads under load, and each sees only one configuration', async () => {
  const versions: readonly Version[] = [
    { name: 'one', credentials: acmeTest, upstream: await upstreamOf('one') },
    { name: 'two', credentials: acmeLive, upstream: await upstreamOf('two') },
  ];
  const [one] = versions as [Version];
  const folder = new MountedFolder(contentsOf(one));
  const sidecar = await startServe(folder.file('sidecar.yaml'));
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  onTestFinished(() => agent.destroy());

  const wrong: string[] = [];
  const seen = new Map<string, number>();
  const enough = new AbortController();
  async function load(path: string, key: string, expected: (version: Version, body: string) => boolean): Promise<void> {
    while (!enough.signal.aborted) {
      const response = await get(agent, sidecar.port, path, key).catch(String);
      const version =
        typeof response === 'string' || response.status !== 200
          ? undefined
          : versions.find((each) => expected(each, response.body));
      if (version === undefined) wrong.push(JSON.stringify(response));
      else seen.set(version.name, (seen.get(version.name) ?? 0) + 1);
      await setTimeout(pause);
    }
  }
  const plain = (): Promise<void> => load('/x', keys.globex, ({ name }, body) => body === `${name} plain-${name}`);
  const enveloped = (): Promise<void> =>
    load('/api/s2s/x', keys.acme, ({ name, credentials }, body) => {
      return openedWith(credentials, body) === `${name} key-${name}`;
    });
  const loads = Array.from({ length: connections }, (_, i) => (i % 2 === 0 ? plain() : enveloped()));

  for (let i = 1; i <= reloads; i += 1) {
    folder.swap(contentsOf(versions[i % 2] ?? one));
    await sidecar.untilEntries('configuration reloaded', i);
  }
  enough.abort();
  await Promise.all(loads);

  expect(wrong).toEqual([]);
  // Both configurations served many requests.
  for (const { name } of versions) expect(seen.get(name)).toBeGreaterThan(reloads);
}, 120_000);

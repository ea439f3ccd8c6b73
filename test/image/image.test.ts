import { createCipheriv, createDecipheriv } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { Network, getContainerRuntimeClient, type StartedNetwork, type StartedTestContainer } from 'testcontainers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeWhere } from '../support/describe-where.ts';
import { MountedFolder, SidecarContainer, buildImage, coreContainer, missingEngine, type Image } from './containers.ts';

const key = 'sk_test_image_acme_not_a_secret';
const addedKey = 'sk_test_image_acme_added_later';
const credentials = { key: 'image-key-of-acme-not-a-secret-3', iv: 'image-iv-of-acme' };

const sidecarFile = `
listen: { host: 0.0.0.0, port: 8080 }
environments: { test: { upstream: "http://core:3000" } }
accounts: { file: /run/secrets/envelope-sidecar/accounts.yaml }
routes: [{ path: "/api/s2s/*", envelope: true }]
`;

function accountsFile(...keys: readonly string[]): string {
  const entries = keys.map((each, index) => `{ id: key-${index}, key: ${each}, createdAt: 2026-11-01 }`);
  return `
accounts:
  - id: acme
    name: Acme Stores
    keys: [${entries.join(', ')}]
    encryption: { test: { enabled: true, key: ${credentials.key}, iv: ${credentials.iv} } }
`;
}

function seal(plaintext: string): string {
  const cipher = createCipheriv('aes-256-cbc', credentials.key, credentials.iv);
  return JSON.stringify({ data: cipher.update(plaintext, 'utf8', 'hex') + cipher.final('hex') });
}

function open(envelope: string): unknown {
  const { data } = JSON.parse(envelope) as { data: string };
  const decipher = createDecipheriv('aes-256-cbc', credentials.key, credentials.iv);
  return JSON.parse(decipher.update(data, 'hex', 'utf8') + decipher.final('utf8'));
}

describeWhere(await missingEngine(), 'the image', () => {
  let image: Image;
  let network: StartedNetwork;
  let core: StartedTestContainer;
  let sidecar: StartedTestContainer;
  const config = new MountedFolder({ 'sidecar.yaml': sidecarFile });
  const accounts = new MountedFolder({ 'accounts.yaml': accountsFile(key) });

  beforeAll(async () => {
    image = await buildImage();
    network = await new Network().start();
    core = await coreContainer(image, network).start();
    sidecar = await startSidecar();
  }, 300_000);

  afterAll(async () => {
    await sidecar?.stop();
    await core?.stop();
    await network?.stop();
    config.remove();
    accounts.remove();
  });

  const container = (): SidecarContainer => new SidecarContainer(image, network, config, accounts);
  const startSidecar = (): Promise<StartedTestContainer> => container().start();

  const inspect = async ({ getId }: StartedTestContainer) => {
    const { container: engine } = await getContainerRuntimeClient();
    return engine.inspect(engine.getById(getId()));
  };
  void inspect;

  const urlOf = (of: StartedTestContainer, port: number): string => `http://127.0.0.1:${of.getMappedPort(port)}`;

  const charge = (of: StartedTestContainer, query = '', body = seal('{"amount":1000}'), with_ = key) =>
    fetch(`${urlOf(of, 8080)}/api/s2s/charge${query}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${with_}`, 'content-type': 'application/json' },
      body,
    });

  test('x', async () => {
    const answer = await charge(sidecar);
    expect(answer.headers.get('envelope')).toBe('sealed');
    console.log(open(await answer.text()));
    console.log((await inspect(sidecar)).State, text, readFileSync, addedKey);
  });
});

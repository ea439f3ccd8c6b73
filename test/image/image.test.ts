import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { IDeployment } from 'kubernetes-models/apps/v1/Deployment';
import {
  Network,
  Wait,
  getContainerRuntimeClient,
  type StartedNetwork,
  type StartedTestContainer,
} from 'testcontainers';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { envelopeOf, opened, send } from '../support/client.ts';
import { describeUnless } from '../support/describe-unless.ts';
import { commandMemory } from '../support/memory-bound.ts';
import {
  HardenedContainer,
  MountedFolder,
  SidecarContainer,
  buildImage,
  buildShelllessImage,
  smallEntrypoint,
  coreContainer,
  label,
  missingEngine,
  removeContainers,
  type Image,
} from './containers.ts';

const key = 'sk_test_image_acme_not_a_secret';
const addedKey = 'sk_test_image_acme_added_later';
const credentials = { key: 'image-key-of-acme-not-a-secret-3', iv: 'image-iv-of-acme' };
/** The credentials in deploy/overlays/test. */
const demoCredentials = { key: 'demo-key-of-acme-not-a-secret-32', iv: 'demo-iv-of-acme-' };

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

describeUnless(await missingEngine(), 'the image', () => {
  let image: Image;
  let network: StartedNetwork;
  let sidecar: StartedTestContainer;
  const config = new MountedFolder({ 'sidecar.yaml': sidecarFile });
  const accounts = new MountedFolder({ 'accounts.yaml': accountsFile(key) });

  beforeAll(async () => {
    image = buildImage();
    network = await new Network().start();
    await coreContainer(image, network).start();
    sidecar = await container().start();
  }, 300_000);

  afterAll(async () => {
    removeContainers();
    await network?.stop();
    config.remove();
    accounts.remove();
  });

  const envelope = envelopeOf(credentials, '{"amount":1000}');

  const container = (of = image): SidecarContainer => new SidecarContainer(of, network, config, accounts);

  /** Starts a container that is removed after the test. */
  const start = async (one: HardenedContainer): Promise<StartedTestContainer> => {
    const started = await one.start();
    onTestFinished(() => void execFileSync('docker', ['rm', '--force', '--volumes', started.getId()]));
    return started;
  };

  const inspect = async (of: StartedTestContainer) => {
    const { container: engine } = await getContainerRuntimeClient();
    return engine.inspect(engine.getById(of.getId()));
  };

  const imageConfig = async () => {
    const { container: engine } = await getContainerRuntimeClient();
    return engine.dockerode.getImage(image.name).inspect();
  };

  const admin = async (path: string, of = sidecar): Promise<Response> =>
    fetch(`http://127.0.0.1:${of.getMappedPort(9090)}${path}`);

  const charge = async (more: { of?: StartedTestContainer; query?: string; body?: string; apiKey?: string } = {}) => {
    const { of = sidecar, query = '', body = envelope, apiKey = key } = more;
    return fetch(`http://127.0.0.1:${of.getMappedPort(8080)}/api/s2s/charge${query}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body,
    });
  };

  /** Evaluates an expression with Node in the container, because there may be no shell. Returns the value. */
  const evaluate = async (expression: string): Promise<unknown> => {
    const { output, exitCode } = await sidecar.exec(['node', '-p', `JSON.stringify(${expression})`]);
    expect({ exitCode, output }).toMatchObject({ exitCode: 0 });
    return JSON.parse(output);
  };

  test('adds at most 20 MB to its base', async () => {
    const { container: engine } = await getContainerRuntimeClient();
    const base = await engine.dockerode.getImage(image.base).inspect();
    const added = (await imageConfig()).Size - base.Size;
    expect(added).toBeGreaterThan(1_000_000);
    expect(added).toBeLessThanOrEqual(20_000_000);
  });

  test('has OCI labels', async () => {
    const { version, license } = JSON.parse(readFileSync('package.json', 'utf8')) as Record<string, string>;
    expect((await imageConfig()).Config.Labels).toMatchObject({
      'org.opencontainers.image.title': 'envelope-sidecar',
      'org.opencontainers.image.version': version,
      'org.opencontainers.image.licenses': license,
    });
  });

  test('serves the mounted configuration without a shell, as a user given by number', async () => {
    const { Config: settings } = await imageConfig();
    expect(settings.User).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    const [node, ...flags] = [settings.Entrypoint].flat();
    expect([node, flags.pop()]).toEqual(['node', '/app/dist/main.js']);
    for (const flag of flags) expect(flag).toMatch(/^--/);
    expect(settings.Cmd).toEqual(['serve']);
  });

  test('runs as an unprivileged user that can write only to /tmp, for the drain token', async () => {
    expect(await evaluate('[process.getuid(), process.getgid()]')).toEqual([65_532, 65_532]);
    const status = await evaluate('fs.readFileSync("/proc/1/status", "utf8")');
    expect(status).toMatch(/^CapEff:\s+0+$/m);
    expect(status).toMatch(/^CapBnd:\s+0+$/m);
    expect(status).toMatch(/^NoNewPrivs:\s+1$/m);
    const { exitCode, output } = await sidecar.exec(['node', '-e', 'fs.writeFileSync("/app/x", "")']);
    expect(exitCode).toBe(1);
    expect(output).toContain('EROFS');
  });

  test('does not open a debugger on a signal, and prints no warnings about the code of packages', async () => {
    // This is the mask of the signals that the process handles. SIGUSR1 has the number 10, so its bit is 9.
    const [, handled = ''] =
      /^SigCgt:\s+(\w+)$/m.exec(String(await evaluate('fs.readFileSync("/proc/1/status", "utf8")'))) ?? [];
    expect(BigInt(`0x${handled}`) & (1n << 14n)).not.toBe(0n);
    expect(BigInt(`0x${handled}`) & (1n << 9n)).toBe(0n);
    const [node = '', ...flags] = [(await imageConfig()).Config.Entrypoint ?? []].flat().slice(0, -1);
    const quiet = await sidecar.exec([node, ...flags, '--eval', 'util._extend({}, {})']);
    expect(quiet).toMatchObject({ exitCode: 0, output: '' });
  });

  test("limits the heap to its share of the container's memory", async () => {
    const limited = await start(container().withResourcesQuota({ memory: 256 / 1_024 }));
    const [node = '', ...flags] = [(await imageConfig()).Config.Entrypoint ?? []].flat().slice(0, -1);
    const { output } = await limited.exec([node, ...flags, '-p', 'v8.getHeapStatistics().heap_size_limit']);
    // The limit is 35 % of the container's memory, plus a young generation with three semi-spaces of 16 MiB.
    expect(Number(output) / 1_048_576).toBeCloseTo(256 * 0.35 + 3 * 16, -1);
  });

  test('starts from the code that V8 compiled when the image was built', async () => {
    const command = 'NODE_DEBUG_NATIVE=COMPILE_CACHE exec "$@"';
    const { Config: settings } = await imageConfig();
    expect(settings.Env).toContain('NODE_COMPILE_CACHE=/app/compile-cache');
    const entry = [settings.Entrypoint ?? []].flat();
    const { output } = await sidecar.exec(['sh', '-c', command, 'sh', ...entry, '--version']);
    expect(output).toMatch(/\/app\/dist\/serve\.js was accepted/);
  });

  test('checks its configuration without options', async () => {
    expect(await sidecar.exec(['sidecar', 'check'])).toMatchObject({
      exitCode: 0,
      output: expect.stringMatching(/^OK$/m),
    });
  });

  test('checks a configuration outside a cluster with the command in docs/operators/image.md', () => {
    const [command = ''] = /^docker run .* check$/m.exec(readFileSync('docs/operators/image.md', 'utf8')) ?? [];
    const here = command.replace(/ envelope-sidecar:\S+/, ` ${image.name}`);
    expect(execFileSync('bash', ['-c', here], { encoding: 'utf8' })).toMatch(/^OK$/m);
  });

  test('carries an envelope to the core and back', async () => {
    const response = await send({ port: sidecar.getMappedPort(8080) }, 'POST /api/s2s/charge', { key, body: envelope });
    expect(response.status).toBe(200);
    const seen = { path: '/api/s2s/charge', account: 'acme', received: '{"amount":1000}'.length };
    expect(JSON.parse(opened(credentials, response))).toMatchObject(seen);
  });

  test('responds to probes and serves metrics', async () => {
    await charge();
    expect((await admin('/livez')).status).toBe(200);
    expect((await admin('/readyz')).status).toBe(200);
    const metrics = await (await admin('/metrics')).text();
    expect(metrics).toMatch(/^envelope_sidecar_requests_total\{.*route="\/api\/s2s\/\*".*\} [1-9]/m);
    expect(metrics).toContain(`node="${process.version}"`);
  });

  test('applies a change to a mounted file', async () => {
    expect((await charge({ apiKey: addedKey })).status).toBe(401);
    accounts.write({ 'accounts.yaml': accountsFile(key, addedKey) });
    await expect.poll(async () => (await charge({ apiKey: addedKey })).status, { timeout: 20_000 }).toBe(200);
    const metrics = async (): Promise<string> => (await admin('/metrics')).text();
    await expect
      .poll(metrics, { timeout: 3_000 })
      .toContain('envelope_sidecar_config_reloads_total{file="accounts",outcome="ok"} 1');
  });

  test('completes requests in flight when it is stopped, and exits with 0', async () => {
    const stopped = await start(container());
    const responses = Array.from({ length: 20 }, () => charge({ of: stopped, query: '?delay=4000' }));
    const inFlight = async (): Promise<string> => (await admin('/metrics', stopped)).text();
    await expect.poll(inFlight, { timeout: 3_000 }).toMatch(/^envelope_sidecar_requests_in_flight 20$/m);

    await stopped.stop({ timeout: 30_000, remove: false });

    const statuses = await Promise.all(responses.map(async (response) => (await response).status));
    expect(statuses).toEqual(statuses.map(() => 200));
    const { State: state } = await inspect(stopped);
    expect(state).toMatchObject({ Status: 'exited', ExitCode: 0 });
  });

  test('is drained by the command for preStop, and serves until it is stopped', async () => {
    const drained = await start(container());
    expect(await drained.exec(['sidecar', 'drain'])).toMatchObject({ exitCode: 0 });
    expect((await admin('/readyz', drained)).status).toBe(503);
    expect((await charge({ of: drained })).status).toBe(200);
  });

  test('runs a command in the memory that docs/operators/capacity.md states', () => {
    const limits = ['--memory', `${commandMemory}m`, '--memory-swap', `${commandMemory}m`];
    const mounts = [
      '--volume',
      `${config.path}:/etc/envelope-sidecar`,
      '--volume',
      `${accounts.path}:/run/secrets/envelope-sidecar`,
    ];
    const command = ['run', '--rm', ...limits, ...mounts, '--entrypoint', 'sidecar', image.name, 'accounts', 'list'];
    expect(execFileSync('docker', command, { encoding: 'utf8' })).toMatch(/^acme /m);
    expect(readFileSync('docs/operators/capacity.md', 'utf8')).toMatch(
      new RegExp(`in the same memory, and needs\\s${commandMemory}\\sMiB\\smore`),
    );
  });

  test('runs on a base without a shell and with Node at another path', async () => {
    const started = await start(container(buildShelllessImage(image)));
    await expect(started.exec(['sh', '-c', 'true'])).resolves.not.toMatchObject({ exitCode: 0 });
    expect((await charge({ of: started })).status).toBe(200);
    expect(await started.exec(['sidecar', 'check'])).toMatchObject({ exitCode: 0 });
  }, 300_000);

  test('runs the example deployment, in which the core on loopback can be reached only through the sidecar', async () => {
    const file = (name: string): Record<string, string> => ({
      [name]: readFileSync(`deploy/overlays/test/${name}`, 'utf8'),
    });
    const folders = [new MountedFolder(file('sidecar.yaml')), new MountedFolder(file('accounts.yaml'))] as const;
    onTestFinished(() => folders.forEach((folder) => folder.remove()));
    const { spec } = parse(readFileSync('deploy/base/deployment.yaml', 'utf8')) as IDeployment;
    const coreSpec = spec?.template?.spec?.containers[0];

    const pod = await start(new SidecarContainer(image, network, ...folders));
    const example = new HardenedContainer(image).withEntrypoint([...(coreSpec?.command ?? [])]);
    const exampleCore = await start(example.withNetworkMode(`container:${pod.getId()}`));

    const probe = async (): Promise<number> =>
      (await exampleCore.exec([...(coreSpec?.readinessProbe?.exec?.command ?? [])])).exitCode;
    await expect.poll(probe, { timeout: 10_000 }).toBe(0);
    const response = await send({ port: pod.getMappedPort(8080) }, 'POST /api/s2s/charge', {
      key: 'sk_test_demo_acme_not_a_secret',
      headers: { Host: 'sandbox.pay.example', 'Content-Type': 'application/json' },
      body: envelopeOf(demoCredentials, '{"amount":1000,"currency":"USD"}'),
    });
    expect(response.status).toBe(201);
    expect(JSON.parse(opened(demoCredentials, response))).toMatchObject({ object: 'transaction', amount: 1000 });
  });

  test('handles load, large bodies and a reload within 128 MiB', async () => {
    // These are the limits that docs/operators/capacity.md gives for a container of that size.
    const small = new MountedFolder({
      'sidecar.yaml': `${sidecarFile}limits: { buffered: 8MiB, inFlight: 32, account: 100% }\n`,
    });
    onTestFinished(() => small.remove());
    const limited = await start(
      new SidecarContainer(image, network, small, accounts)
        .withEntrypoint(smallEntrypoint)
        .withResourcesQuota({ memory: 128 / 1024 }),
    );
    const statuses = new Set<number>();
    const chargeOnce = async (more: { query?: string; body?: string } = {}): Promise<void> => {
      const response = await charge({ of: limited, ...more });
      await response.arrayBuffer();
      statuses.add(response.status);
    };

    await inLanes(30, 3_000, () => chargeOnce());
    expect([...statuses]).toEqual([200]);

    const large = envelopeOf(credentials, JSON.stringify({ padding: 'x'.repeat(500_000) }));
    const sent = inLanes(30, 300, () => chargeOnce({ body: large }));
    accounts.write({ 'accounts.yaml': accountsFile(key) });
    await sent;
    // Requests beyond the limits were refused, instead of waiting.
    expect([...statuses].filter((status) => status !== 200 && status !== 503)).toEqual([]);

    statuses.clear();
    await inLanes(10, 40, () => chargeOnce({ query: '?size=10000000' }));
    expect([...statuses]).toEqual([200]);
    expect((await inspect(limited)).State).toMatchObject({ Running: true, OOMKilled: false });
    expect(await (await admin('/metrics', limited)).text()).toContain(
      'config_reloads_total{file="accounts",outcome="ok"} 1',
    );
  }, 120_000);

  test('leaves no container behind, even one that was still starting when its test timed out', async () => {
    const running = async (): Promise<readonly string[]> => {
      const { container: engine } = await getContainerRuntimeClient();
      return (await engine.list()).filter(({ Labels }) => Labels[label] === String(process.pid)).map(({ Id }) => Id);
    };
    const before = await running();
    const neverReady = container().withWaitStrategy(Wait.forHttp('/no-such-path', 9090));
    // This promise rejects when the container has been removed. Nothing awaits it.
    neverReady.start().catch(() => {});
    await expect.poll(running, { timeout: 20_000 }).toHaveLength(before.length + 1);
    removeContainers();
    expect(await running()).toEqual([]);
  });
});

/** Calls `work` this many times in total, in parallel lanes. */
async function inLanes(lanes: number, times: number, work: () => Promise<void>): Promise<void> {
  let left = times;
  const lane = async (): Promise<void> => {
    while (left-- > 0) await work();
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

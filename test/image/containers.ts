import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { GenericContainer, Wait, getContainerRuntimeClient, type StartedNetwork } from 'testcontainers';

// The reaper of testcontainers would need another image. The tests themselves remove the containers that they start.
process.env['TESTCONTAINERS_RYUK_DISABLED'] = 'true';
// Ports are published on loopback. Without this, testcontainers in a container would use this machine's gateway.
process.env['TESTCONTAINERS_HOST_OVERRIDE'] = '127.0.0.1';

/** The reason why containers cannot run here; undefined if there is an engine. */
export async function missingEngine(): Promise<string | undefined> {
  try {
    await getContainerRuntimeClient();
    return undefined;
  } catch {
    return 'there is no container engine';
  }
}

export interface Image {
  readonly name: string;
  readonly base: string;
}

/**
 * Makes a command wait for its turn. Tests in two files build the same image at once, and the second build then finds the image in the
 * engine's cache.
 */
const inTurn = ['-c', 'exec flock "$@"', 'bash', join(tmpdir(), 'envelope-sidecar-test-image.lock')];

/** Builds the Dockerfile of the project on the base that this machine can provide. */
export function buildImage(): Image {
  const base = execFileSync('bash', [...inTurn, 'bash', 'test/image/base-image.sh'], { encoding: 'utf8' }).trim();
  return build('latest', base, { BASE_IMAGE: base, BUILD_IMAGE: base });
}

/**
 * Builds the Dockerfile on an image without a shell. That image contains only Node, in a folder of its own, and the libraries that Node
 * needs.
 */
export function buildShelllessImage({ base }: Image): Image {
  const shellless = 'envelope-sidecar-test/shell-less:latest';
  const node = '/usr/local/bin/node';
  const archive = `tar --create --dereference --absolute-names --transform s:${node}:/nodejs/bin/node: ${node} \
    $(ldd ${node} | grep --only-matching '/[^ ]*')`;
  const pipe = `set -o pipefail; docker run --rm --entrypoint bash ${base} -c "$0" | docker import - ${shellless}`;
  execFileSync('bash', ['-c', pipe, archive]);
  return build('shell-less', shellless, { BASE_IMAGE: shellless, BUILD_IMAGE: base, NODE_DIRECTORY: '/nodejs/bin' });
}

function build(tag: string, base: string, buildArguments: Readonly<Record<string, string>>): Image {
  const name = `envelope-sidecar-test/image:${tag}`;
  const options = Object.entries(buildArguments).flatMap(([key, value]) => ['--build-arg', `${key}=${value}`]);
  const { status, output } = spawnSync(
    'bash',
    [...inTurn, 'docker', 'build', '--force-rm', '--tag', name, ...options, '.'],
    {
      encoding: 'utf8',
    },
  );
  if (status !== 0) throw new Error(`docker build ended with ${status}: ${output.join('').slice(-2_000)}`);
  return { name, base };
}

/** The label on every test container. Its value is the id of the process that started the container. */
export const label = 'envelope-sidecar-test.process';

/**
 * Removes the containers that this process started, including those of tests that timed out, and the containers of processes that have
 * ended.
 */
export function removeContainers(): void {
  const format = `{{.ID}} {{.Label "${label}"}}`;
  const list = execFileSync('docker', ['ps', '--all', '--filter', `label=${label}`, '--format', format], {
    encoding: 'utf8',
  });
  for (const [, id = '', owner = ''] of list.matchAll(/^(\S+) (\d+)$/gm)) {
    if (owner !== String(process.pid) && existsSync(`/proc/${owner}`)) continue;
    // Another process may remove the container at the same time, so failures are ignored.
    spawnSync('docker', ['rm', '--force', '--volumes', id]);
  }
}

/** A container that runs as deployed: read-only, without capabilities, and as the user that its image names. */
export class HardenedContainer extends GenericContainer {
  constructor({ name }: Image) {
    super(name);
    this.hostConfig.ReadonlyRootfs = true;
    // The folder for the drain token, for which deploy/ mounts a volume.
    this.hostConfig.Tmpfs = { '/tmp': 'rw,mode=1777' };
    this.withDroppedCapabilities('ALL').withSecurityOpt('no-new-privileges');
    this.withLabels({ [label]: String(process.pid) });
  }

  /** Publishes the ports only on loopback, so that other machines cannot reach test containers. */
  protected override async beforeContainerCreated(): Promise<void> {
    for (const bindings of Object.values(
      (this.hostConfig.PortBindings ?? {}) as Record<string, { HostIp?: string }[]>,
    )) {
      for (const binding of bindings) binding.HostIp = '127.0.0.1';
    }
  }
}

/** The sidecar with its two mounted folders. It is ready when `start` resolves. */
export class SidecarContainer extends HardenedContainer {
  constructor(image: Image, network: StartedNetwork, config: MountedFolder, accounts: MountedFolder) {
    super(image);
    this.withNetwork(network)
      .withExposedPorts(8080, 9090)
      .withBindMounts([
        { source: config.path, target: '/etc/envelope-sidecar', mode: 'ro' },
        { source: accounts.path, target: '/run/secrets/envelope-sidecar', mode: 'ro' },
      ])
      .withWaitStrategy(Wait.forHttp('/readyz', 9090));
  }
}

/** The entry point for small containers. With the image's own `--max-semi-space-size`, the young generation would fill half the memory. */
export const smallEntrypoint = [
  'node',
  '--max-semi-space-size=8',
  '--max-old-space-size-percentage=35',
  '--no-memory-pool-share-memory-on-teardown',
  '/app/dist/main.js',
  // If a container replaces the entry point of its image, it also loses the command of the image.
  'serve',
  '--config',
  '/etc/envelope-sidecar/sidecar.yaml',
];

/** The payment core of these tests, at `http://core:3000` in its network. */
export function coreContainer({ base }: Image, network: StartedNetwork): GenericContainer {
  return new GenericContainer(base)
    .withLabels({ [label]: String(process.pid) })
    .withBindMounts([{ source: resolve('test/image/core.ts'), target: '/core.ts', mode: 'ro' }])
    .withEntrypoint(['node', '/core.ts'])
    .withNetwork(network)
    .withNetworkAliases('core');
}

/** A folder as Kubernetes mounts a ConfigMap or a Secret: each file is a link through `..data`, which is swapped. */
export class MountedFolder {
  readonly path = mkdtempSync(join(tmpdir(), 'envelope-sidecar-mount-'));
  #version = 0;

  constructor(files: Readonly<Record<string, string>>) {
    // The image's user differs from the user who runs the tests, so the folder must be readable for everyone.
    execFileSync('chmod', ['755', this.path]);
    this.write(files);
    for (const name of Object.keys(files)) symlinkSync(join('..data', name), join(this.path, name));
  }

  /** Replaces the contents of all files at once. */
  write(files: Readonly<Record<string, string>>): void {
    this.#version += 1;
    const version = `..${this.#version}`;
    mkdirSync(join(this.path, version));
    for (const [name, text] of Object.entries(files)) writeFileSync(join(this.path, version, name), text);
    symlinkSync(version, join(this.path, '..data_new'));
    renameSync(join(this.path, '..data_new'), join(this.path, '..data'));
  }

  remove(): void {
    rmSync(this.path, { recursive: true });
  }
}

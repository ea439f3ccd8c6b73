import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { IPodMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor';
import type { IHorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler';
import type { IJob } from 'kubernetes-models/batch/v1/Job';
import type { IDeployment } from 'kubernetes-models/apps/v1/Deployment';
import type { INetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy';
import type { IPodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget';
import type { IConfigMap } from 'kubernetes-models/v1/ConfigMap';
import type { IService } from 'kubernetes-models/v1/Service';
import { describe, expect, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { loadConfig, loadKms } from '../../src/config/load.ts';
import { Folder } from '../support/folder.ts';
import { describeUnless } from '../support/describe-unless.ts';
import { missingTools } from '../support/tools.ts';
import { problemsOf, render, type Manifest } from './manifests.ts';

/** Seconds until no endpoint refers to a terminating pod any more, even if the cluster is slow. */
const endpointPropagation = 10;

/** What the strictest Pod Security Standard requires of a container, and a read-only root file system. */
const noRights = {
  runAsNonRoot: true,
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
  seccompProfile: { type: 'RuntimeDefault' },
};

const accountsPath = '/run/secrets/envelope-sidecar/accounts.yaml';

/** The only object of this kind, or of this kind and name. */
function find(manifests: readonly Manifest[], kind: string, name?: string): object {
  const [found, ...others] = manifests.filter(
    (manifest) => manifest.kind === kind && manifest.metadata.name === (name ?? manifest.metadata.name),
  );
  expect(found, `a ${kind}`).toBeDefined();
  expect(others).toEqual([]);
  return found ?? {};
}

/** The Deployment with the sidecar, its pod, and the pod's containers: the sidecar and the cores. */
function podOf(manifests: readonly Manifest[]) {
  const isInjected = ({ kind, metadata }: Manifest): boolean =>
    kind === 'Deployment' && metadata.labels?.['envelope-sidecar'] === 'true';
  const deployment = find(manifests.filter(isInjected), 'Deployment') as IDeployment;
  const template = deployment.spec?.template;
  const pod = template?.spec;
  const sidecar = pod?.initContainers?.find(({ name }) => name === 'envelope-sidecar');
  if (pod === undefined || sidecar === undefined) throw new Error('there is no sidecar');
  return { deployment, labels: template?.metadata?.labels ?? {}, pod, sidecar, cores: pod.containers };
}

/** Reads the configuration in a rendered ConfigMap as the sidecar would. */
function configOf(manifests: readonly Manifest[]): Config {
  const { data = {} } = find(manifests, 'ConfigMap') as IConfigMap;
  const folder = mkdtempSync(join(tmpdir(), 'envelope-sidecar-'));
  try {
    const accounts = join(folder, 'accounts.yaml');
    writeFileSync(accounts, 'accounts: []\n');
    const secrets = {
      'database-url': 'postgres://db/x',
      'master-key': 'A'.repeat(43) + '=',
      'operators-token': `ana: ${'t'.repeat(32)}`,
    };
    for (const [name, text] of Object.entries(secrets)) writeFileSync(join(folder, name), text, { mode: 0o640 });
    const config = data['sidecar.yaml']?.replaceAll(dirname(accountsPath), folder) ?? '';
    writeFileSync(join(folder, 'sidecar.yaml'), config);
    const loaded = loadConfig(join(folder, 'sidecar.yaml'), {});
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
    expect(loaded.warnings).toEqual([]);
    return loaded.config;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function matches(selector: Readonly<Record<string, string>> | undefined, labels: Readonly<Record<string, string>>) {
  expect(labels).toMatchObject(selector ?? { nothing: 'is selected' });
}

const withSidecar = {
  base: 'deploy/base',
  'overlay test': 'deploy/overlays/test',
  'overlay live': 'deploy/overlays/live',
  'overlay live-postgres': 'deploy/overlays/live-postgres',
  'component on another Deployment': 'test/deploy/own-deployment',
};
const examples = Object.entries(withSidecar).filter(([, folder]) => folder.startsWith('deploy/'));
const overlays = examples.filter(([name]) => name.startsWith('overlay'));

describeUnless(missingTools('kubectl'), 'the manifests', () => {
  const rendered = new Map<string, Manifest[]>();
  const manifestsIn = (folder: string): Manifest[] => {
    const manifests = rendered.get(folder) ?? render(folder);
    rendered.set(folder, manifests);
    return manifests;
  };

  test('conform to the Kubernetes API: they have all required fields, the right types and no unknown fields', async () => {
    const folders = [...Object.values(withSidecar), 'deploy/prometheus', 'deploy/grafana'];
    // Components cannot be rendered by themselves.
    const kustomizations = globSync('deploy/**/kustomization.yaml').filter((file) => !file.includes('/components/'));
    expect(folders).toEqual(expect.arrayContaining(kustomizations.map(dirname)));
    expect(await problemsOf([...folders, 'test/deploy/with-kms'].flatMap(manifestsIn))).toEqual([]);
  });

  test('are reported as invalid with an unknown field, a value outside an enumeration, a wrong type, or without a required field', async () => {
    const { deployment } = podOf(manifestsIn('deploy/base'));
    const changes = [{ replica: 2 }, { strategy: { type: 'Slowly' } }, { replicas: 'two' }, { selector: undefined }];
    const changed = (change: object): object => ({ ...deployment, spec: { ...deployment.spec, ...change } });
    const wrong = changes.map(changed);
    const problems = (await problemsOf(wrong as unknown as Manifest[])).join('\n');
    expect(problems).toContain(`'"replica"' does not exist`);
    expect(problems).toContain(`'"Slowly"' is not assignable`);
    expect(problems).toContain('replicas must be integer');
    expect(problems).toContain('must have required property selector');
  });

  describe.each(Object.entries(withSidecar))('%s', (_name, folder) => {
    test('the sidecar is a native sidecar container, which starts before the core and stops after it', () => {
      const { sidecar } = podOf(manifestsIn(folder));
      expect(sidecar.restartPolicy).toBe('Always');
      expect(sidecar.startupProbe?.httpGet?.path).toBe('/readyz');
    });

    test('the probes use the admin listener, and readiness and liveness have different paths', () => {
      const { sidecar } = podOf(manifestsIn(folder));
      const { admin } = configOf(manifestsIn(folder));
      const port = sidecar.ports?.find(({ name }) => name === 'envelope-admin');
      expect(port?.containerPort).toBe(admin.port);
      const probes = [sidecar.startupProbe, sidecar.livenessProbe, sidecar.readinessProbe];
      expect(probes.map((probe) => probe?.httpGet?.port)).toEqual(probes.map(() => 'envelope-admin'));
      expect(sidecar.livenessProbe?.httpGet?.path).toBe('/livez');
      expect(sidecar.readinessProbe?.httpGet?.path).toBe('/readyz');
    });

    test('preStop drains the sidecar with the mounted configuration', () => {
      const { sidecar } = podOf(manifestsIn(folder));
      const dockerfile = readFileSync('Dockerfile', 'utf8');
      const [, file = ''] = /^ +SIDECAR_CONFIG=(\S+)/m.exec(dockerfile) ?? [];
      expect(sidecar.volumeMounts?.map(({ mountPath }) => mountPath)).toContain(dirname(file));
      expect(sidecar.lifecycle?.preStop?.exec?.command).toEqual(['sidecar', 'drain']);
      expect(dockerfile).toMatch(/^CMD \["serve"\]$/m);
      expect(dockerfile).toMatch(/^ENTRYPOINT \["node", .*"\/app\/dist\/main\.js"\]$/m);
      expect(sidecar.args ?? sidecar.command).toBeUndefined();
    });

    test('the sidecar has no privileges it does not need', () => {
      expect(podOf(manifestsIn(folder)).sidecar.securityContext).toEqual(noRights);
    });

    test('the sidecar has its memory reserved and no CPU limit', () => {
      const { limits, requests } = podOf(manifestsIn(folder)).sidecar.resources ?? {};
      expect(limits).toEqual({ memory: requests?.['memory'] });
      expect(requests).toHaveProperty('cpu');
    });

    test('configuration and accounts are mounted read-only as whole folders, because single files are never updated', () => {
      const { pod, sidecar } = podOf(manifestsIn(folder));
      const mounts = sidecar.volumeMounts ?? [];
      expect(mounts.map(({ mountPath }) => mountPath)).toEqual([
        '/etc/envelope-sidecar',
        '/run/secrets/envelope-sidecar',
        '/run/envelope-sidecar',
      ]);
      for (const { subPath, subPathExpr, readOnly } of mounts.slice(0, 2)) {
        expect({ subPath, subPathExpr, readOnly }).toEqual({
          subPath: undefined,
          subPathExpr: undefined,
          readOnly: true,
        });
      }
      const sources = mounts.map(({ name }) => pod.volumes?.find((volume) => volume.name === name));
      expect(sources[0]?.configMap?.name).toBe('envelope-sidecar');
      expect(sources[1]?.secret).toEqual({ secretName: 'envelope-sidecar-accounts', defaultMode: 0o440 });
      // The Dockerfile sets the user. Without this group, that user could not read the files.
      expect(readFileSync('Dockerfile', 'utf8')).toContain(`\nUSER 65532:${pod.securityContext?.fsGroup}\n`);
      expect(sources[2]?.emptyDir).toMatchObject({ medium: 'Memory' });
      expect(sidecar.env).toEqual([{ name: 'XDG_RUNTIME_DIR', value: mounts[2]?.mountPath }]);
      expect((find(manifestsIn(folder), 'ConfigMap') as IConfigMap).metadata?.name).toBe('envelope-sidecar');
    });

    test('the configuration is valid and listens on the ports of the pod', () => {
      const { sidecar } = podOf(manifestsIn(folder));
      const { listen, admin, environments } = configOf(manifestsIn(folder));
      expect(sidecar.ports?.map(({ containerPort }) => containerPort)).toEqual([listen.port, admin.port]);
      for (const { upstream } of environments) expect(new URL(upstream.origin).hostname).toBe('127.0.0.1');
    });

    test("the grace period covers the core's sleep and the sidecar's drain", () => {
      const { pod, cores } = podOf(manifestsIn(folder));
      const drain = configOf(manifestsIn(folder)).timeouts.drain / 1_000;
      // If users supply the core, it is assumed to sleep for as long as docs/operators/deploy.md requires.
      const sleeps = cores.map(({ lifecycle }) => lifecycle?.preStop?.sleep?.seconds ?? endpointPropagation + drain);
      expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(Math.max(...sleeps) + drain);
    });
  });

  describe.each(examples)('%s', (name, folder) => {
    test('the core stops after its last request', () => {
      const { cores } = podOf(manifestsIn(folder));
      const drain = configOf(manifestsIn(folder)).timeouts.drain / 1_000;
      expect(cores).toHaveLength(1);
      expect(cores[0]?.lifecycle?.preStop?.sleep?.seconds).toBeGreaterThan(endpointPropagation + drain);
    });

    test('the core opens no port and is probed from within, so that no traffic bypasses the sidecar', () => {
      for (const core of podOf(manifestsIn(folder)).cores) {
        expect(core.ports).toBeUndefined();
        for (const probe of [core.readinessProbe, core.livenessProbe, core.startupProbe]) {
          expect(Object.keys(probe ?? {}).filter((key) => /^(?:httpGet|tcpSocket|grpc)$/.test(key))).toEqual([]);
        }
        expect(core.readinessProbe?.exec).toBeDefined();
      }
    });

    test('the core has no privileges it does not need, and no container has an API token', () => {
      const { pod, cores } = podOf(manifestsIn(folder));
      expect(pod.automountServiceAccountToken).toBe(false);
      for (const { securityContext } of cores) expect(securityContext).toEqual(noRights);
    });

    test('the Service targets only the listener for merchants', () => {
      const { spec } = find(manifestsIn(folder), 'Service') as IService;
      matches(spec?.selector, podOf(manifestsIn(folder)).labels);
      expect(spec?.ports?.map(({ targetPort }) => targetPort)).toEqual([configOf(manifestsIn(folder)).listen.port]);
    });

    test('only the gateway reaches the listener for merchants, and only Prometheus the metrics', () => {
      const { spec } = find(manifestsIn(folder), 'NetworkPolicy', 'payment-core') as INetworkPolicy;
      matches(spec?.podSelector?.matchLabels, podOf(manifestsIn(folder)).labels);
      expect(spec?.policyTypes).toEqual(['Ingress', 'Egress']);
      const destinations = spec?.egress?.flatMap(({ ports }) => ports?.map(({ port, protocol }) => [port, protocol]));
      expect(destinations).toEqual([
        [53, 'UDP'],
        [53, 'TCP'],
      ]);
      const { listen, admin } = configOf(manifestsIn(folder));
      const open = spec?.ingress?.map(({ from, ports }) => [
        from?.map(({ namespaceSelector }) => namespaceSelector?.matchLabels?.['kubernetes.io/metadata.name']),
        ports?.map(({ port }) => port),
      ]);
      expect(open).toEqual([
        [['gateway'], [listen.port]],
        [['monitoring'], [admin.port]],
      ]);
    });

    test('a node can be drained, and at most one pod is down at a time', () => {
      const { spec } = find(manifestsIn(folder), 'PodDisruptionBudget') as IPodDisruptionBudget;
      const { deployment, labels } = podOf(manifestsIn(folder));
      matches(spec?.selector?.matchLabels, labels);
      expect(spec?.maxUnavailable).toBe(1);
      const scaler = manifestsIn(folder).find(({ kind }) => kind === 'HorizontalPodAutoscaler') as
        IHorizontalPodAutoscaler | undefined;
      // Either the Deployment or the autoscaler sets the number of replicas, never both.
      const replicas = [deployment.spec?.replicas, scaler?.spec?.minReplicas].filter((count) => count !== undefined);
      expect(replicas).toHaveLength(1);
      expect(replicas[0]).toBeGreaterThan(1);
      expect(deployment.spec?.strategy?.rollingUpdate).toEqual({ maxSurge: 1, maxUnavailable: 0 });
    });

    test(`namespaces: ${name === 'base' ? 'no object names one' : 'every object is in that of its environment'}`, () => {
      const namespaces = manifestsIn(folder).map(({ metadata }) => metadata.namespace);
      const environment = configOf(manifestsIn(folder)).environments[0]?.name;
      expect(new Set(namespaces)).toEqual(new Set([name === 'base' ? undefined : `payments-${environment}`]));
    });
  });

  describe.each(overlays)('%s', (_name, folder) => {
    test('the sidecar is scraped', () => {
      const { spec } = find(manifestsIn(folder), 'PodMonitor') as IPodMonitor;
      const { labels, sidecar } = podOf(manifestsIn(folder));
      matches(spec?.selector.matchLabels, labels);
      const endpoints = spec?.podMetricsEndpoints ?? [];
      expect(endpoints.map(({ port, path }) => ({ port, path }))).toEqual([
        { port: 'envelope-admin', path: '/metrics' },
      ]);
      expect(sidecar.ports?.map(({ name }) => name)).toContain(endpoints[0]?.port);
    });

    test('images have a version', () => {
      const { sidecar, cores } = podOf(manifestsIn(folder));
      const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
      for (const { image } of [sidecar, ...cores]) expect(image).toBe(`envelope-sidecar:${version}`);
    });
  });

  test('the live overlay has no Secret and does not serve the test endpoints', () => {
    const manifests = manifestsIn('deploy/overlays/live');
    expect(manifests.map(({ kind }) => kind)).not.toContain('Secret');
    expect(configOf(manifests).cipherTest).toEqual({ environments: [] });
    expect(configOf(manifests).environments.map(({ name }) => name)).toEqual(['live']);
  });

  test('with accounts in PostgreSQL, a Job migrates them as the owner, with the configuration of the sidecars', () => {
    const manifests = manifestsIn('deploy/overlays/live-postgres');
    const config = configOf(manifests);
    expect(config.store).toMatchObject({ type: 'postgres' });
    expect(config.operators).toMatchObject({ host: '127.0.0.1', port: 9091 });
    const pod = (find(manifests, 'Job') as IJob).spec?.template.spec;
    const [container] = pod?.containers ?? [];
    expect(container?.args).toEqual(['accounts', 'migrate']);
    expect(container?.securityContext).toEqual(noRights);
    const { sidecar } = podOf(manifests);
    expect(container?.image).toBe(sidecar.image);
    const [configPath, secretsPath] = sidecar.volumeMounts?.map(({ mountPath }) => mountPath) ?? [];
    expect(container?.volumeMounts?.map(({ mountPath }) => mountPath)).toEqual([configPath, secretsPath]);
    const sources = pod?.volumes?.find(({ projected }) => projected)?.projected?.sources?.map(({ secret }) => secret);
    expect(sources?.map((secret) => [secret?.name, secret?.items?.map(({ key }) => key)])).toEqual([
      ['envelope-sidecar-accounts', ['operators-token']],
      ['envelope-sidecar-migration', ['database-url']],
    ]);
  });

  test('with accounts in PostgreSQL, only the sidecars and the migration reach the database', () => {
    const manifests = manifestsIn('deploy/overlays/live-postgres');
    const { spec } = find(manifests, 'NetworkPolicy', 'envelope-sidecar-database') as INetworkPolicy;
    const job = find(manifests, 'Job') as IJob;
    const names = [podOf(manifests).labels, job.spec?.template.metadata?.labels].map(
      (labels) => labels?.['app.kubernetes.io/name'],
    );
    expect(spec?.podSelector?.matchExpressions?.[0]?.values).toEqual(names);
    expect(spec?.egress?.[0]?.ports).toEqual([{ port: 5432 }]);
  });

  test("the autoscaler uses only the sidecar's CPU time", () => {
    const manifests = manifestsIn('deploy/overlays/live-postgres');
    const { spec } = find(manifests, 'HorizontalPodAutoscaler') as IHorizontalPodAutoscaler;
    expect(spec?.scaleTargetRef.name).toBe(podOf(manifests).deployment.metadata?.name);
    expect(spec?.metrics?.map(({ containerResource }) => containerResource?.container)).toEqual(['envelope-sidecar']);
  });

  test('the test overlay has valid accounts', () => {
    const secret = manifestsIn('deploy/overlays/test').find(({ kind }) => kind === 'Secret');
    expect(secret?.metadata.name).toBe('envelope-sidecar-accounts');
    const folder = mkdtempSync(join(tmpdir(), 'envelope-sidecar-'));
    const config = readFileSync('deploy/overlays/test/sidecar.yaml', 'utf8').replace(accountsPath, 'accounts.yaml');
    const { data = {} } = secret as { data?: Record<string, string> };
    writeFileSync(join(folder, 'sidecar.yaml'), config);
    writeFileSync(join(folder, 'accounts.yaml'), Buffer.from(data['accounts.yaml'] ?? '', 'base64'));
    const loaded = loadConfig(join(folder, 'sidecar.yaml'), {});
    rmSync(folder, { recursive: true });
    expect(loaded).toMatchObject({ ok: true, config: { accounts: [{ id: 'acme' }] } });
  });

  test('the kms component puts the plug-in before the sidecar, and the socket where only these two can open it', () => {
    const manifests = manifestsIn('test/deploy/with-kms');
    const { pod, sidecar } = podOf(manifests);
    const [plugin] = pod.initContainers ?? [];
    expect(pod.initContainers?.map(({ name }) => name)).toEqual(['kms-plugin', 'envelope-sidecar']);
    expect(plugin).toMatchObject({ restartPolicy: 'Always', image: 'registry.example/kms-plugin:1.2.3' });
    expect(plugin?.args).toContain('--socket-mode=0660');
    // The plug-in runs as another user, but in the same group; the mode of the socket lets both open it.
    expect(plugin?.securityContext).toMatchObject({ runAsUser: 65_531, runAsGroup: pod.securityContext?.fsGroup });
    const mountsOf = (name: string | undefined): string[] =>
      [...(pod.initContainers ?? []), ...pod.containers]
        .filter(({ volumeMounts = [] }) => volumeMounts.some((mount) => mount.name === name))
        .map((container) => container.name);
    expect(mountsOf('kms-socket')).toEqual(['kms-plugin', 'envelope-sidecar']);
    expect(pod.volumes).toContainEqual({ name: 'kms-socket', emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } });
    // The sidecar stops waiting for the KMS, and says why, before Kubernetes restarts it.
    const { periodSeconds = 0, failureThreshold = 0 } = sidecar.startupProbe ?? {};
    const folder = new Folder({ 'sidecar.yaml': 'kms: { socket: kms.sock }\n' });
    expect(loadKms(folder.file('sidecar.yaml'), {})).toMatchObject({ ok: true, value: { wait: 45_000 } });
    expect(periodSeconds * failureThreshold).toBeGreaterThan(45);
  });

  test('the component changes no other workload, and keeps existing fields', () => {
    const manifests = manifestsIn('test/deploy/own-deployment');
    const reports = manifests.find(({ metadata }) => metadata.name === 'reports') as IDeployment | undefined;
    expect(reports?.spec?.template?.spec).toEqual({ containers: [{ name: 'reports', image: 'reports' }] });
    const { pod, labels, cores } = podOf(manifests);
    expect(labels).toEqual({ app: 'ledger', 'envelope-sidecar': 'true' });
    expect(pod.initContainers?.map(({ name }) => name).toSorted()).toEqual(['envelope-sidecar', 'migrate']);
    expect(pod.volumes?.map(({ name }) => name)).toContain('cache');
    expect(cores).toEqual([
      { name: 'ledger', image: 'ledger', volumeMounts: [{ name: 'cache', mountPath: '/cache' }] },
    ]);
  });
});

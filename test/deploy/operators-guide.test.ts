import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import type { IDeployment } from 'kubernetes-models/apps/v1/Deployment';
import { describe, expect, onTestFinished, test } from 'vitest';
import { refusals } from '../../src/errors.ts';
import { describeUnless } from '../support/describe-unless.ts';
import { blocksIn } from '../support/snippets.ts';
import { missingTools } from '../support/tools.ts';
import { render } from './manifests.ts';

/** All pages of the guide, joined. */
const guide = globSync('docs/operators/*.md')
  .map((file) => readFileSync(file, 'utf8'))
  .join('\n');

const commands = blocksIn(guide, 'sh').flatMap((block) => block.trim().split('\n'));

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'operators-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

describe('the guide for operators', () => {
  test('names only files and folders that exist', () => {
    const named = [...guide.matchAll(/\bdeploy\/[\w./-]*\w/g)].map(([path]) => path);
    expect(named.length).toBeGreaterThan(8);
    expect(named.filter((path) => !existsSync(path))).toEqual([]);
  });

  test('says what to check for every refusal', () => {
    const rows = [...guide.matchAll(/^- \[`(\w+)`\]\(\.\.\/errors\.md#(\w+)\): \S/gm)];
    expect(new Set(rows.map(([, code]) => code))).toEqual(new Set(Object.keys(refusals)));
    expect(rows).toHaveLength(Object.keys(refusals).length);
    for (const [, code, anchor] of rows) expect(anchor).toBe(code);
  });

  test('lists the members of an access log line', () => {
    const [, list = ''] = /^## Logs$([^]*?)^## /m.exec(guide) ?? [];
    const listed = [...list.matchAll(/^- `(\w+)`/gm)].map(([, member]) => member);
    const type =
      /interface AccessLine \{([^]*?)^\}/m.exec(readFileSync('src/telemetry/access-log.ts', 'utf8'))?.[1] ?? '';
    expect(listed).toEqual([...type.matchAll(/readonly (\w+)\??:/g)].map(([, member]) => member));
  });

  test('describes the build arguments of the image', () => {
    const dockerfile = readFileSync('Dockerfile', 'utf8');
    const declared = [...dockerfile.matchAll(/^ARG (\w+)(?:=(.*))?$/gm)].map(([, name, value]) => [name, value]);
    const listed = [...guide.matchAll(/^\| `([A-Z_]+)` +\| (?:`(.*?)`)? +\|/gm)].map(([, name, value]) => [
      name,
      value,
    ]);
    expect(new Map(listed as [string, string][])).toEqual(new Map(declared as [string, string][]));
  });
});

describeUnless(missingTools('kubectl'), 'the guide for operators, with kubectl', () => {
  test('shows manifests that can be rendered', () => {
    const folders = commands.flatMap((command) => /(?:kustomize|--kustomize) (deploy\/\S+)$/.exec(command)?.[1] ?? []);
    expect(new Set(folders)).toEqual(new Set(['deploy/overlays/test', 'deploy/grafana', 'deploy/prometheus']));
    for (const each of folders) expect(render(each)).not.toEqual([]);
  });

  test('adds up the times that stopping a pod takes, as in the manifests', () => {
    const deployment = render('deploy/overlays/live').find(({ kind }) => kind === 'Deployment') as IDeployment;
    const pod = deployment.spec?.template?.spec;
    const sleep = pod?.containers[0]?.lifecycle?.preStop?.sleep?.seconds ?? 0;
    const [propagation, drain, operators] = [10, 25, 5];
    expect(guide).toContain(`(here ${sleep} > ${propagation + drain})`);
    expect(guide).toContain(`(here ${pod?.terminationGracePeriodSeconds} > ${sleep + drain + operators})`);
    expect(guide).toContain(`preStop: { sleep: { seconds: ${sleep} } }`);
  });

  test('shows how the sidecar is added to an existing Deployment', () => {
    const own = folder();
    cpSync('test/deploy/own-deployment/deployments.yaml', join(own, 'deployments.yaml'));
    cpSync('deploy/overlays/live/sidecar.yaml', join(own, 'sidecar.yaml'));
    const shown = blocksIn(guide, 'yaml').find((block) => block.startsWith('components:')) ?? '';
    const filled = shown
      .replaceAll('../path/to/deploy', relative(own, resolve('deploy')))
      .replace('sha256:…', `sha256:${'0'.repeat(64)}`)
      .replace('YOUR-REGISTRY', 'registry.example');
    writeFileSync(join(own, 'kustomization.yaml'), `resources: [deployments.yaml]\n${filled}`);
    const rendered = render(own);
    const ledger = rendered.find(({ metadata }) => metadata.name === 'ledger') as IDeployment;
    const sidecar = ledger.spec?.template?.spec?.initContainers?.find(({ name }) => name === 'envelope-sidecar');
    expect(sidecar?.image).toBe(`registry.example/envelope-sidecar@sha256:${'0'.repeat(64)}`);
    expect(rendered.find(({ kind }) => kind === 'ConfigMap')).toMatchObject({
      data: { 'sidecar.yaml': readFileSync('deploy/overlays/live/sidecar.yaml', 'utf8') },
    });
    expect(rendered.map(({ kind }) => kind)).toContain('PodMonitor');
  });
});

describeUnless(missingTools('promtool'), 'the guide for operators, with promtool', () => {
  test.each(commands.filter((command) => command.startsWith('promtool ')))(
    '`%s` succeeds',
    (command) => {
      expect(execFileSync('bash', ['-c', command], { encoding: 'utf8' })).toContain('SUCCESS');
    },
    120_000,
  );

  test.each(['rules.yaml', 'prometheus-rule.yaml'])('shows how the alerts in %s get links', (name) => {
    const path = folder();
    const shown = commands.find((command) => command.startsWith('sed ')) ?? '';
    const command = shown
      .replace('prometheus/rules.yaml', `prometheus/${name}`)
      .replace('>rules.yaml', `>${join(path, name)}`);
    execFileSync('bash', ['-c', command]);
    const rules = readFileSync(join(path, name), 'utf8');
    const links = rules.match(/runbook_url: https:\/\/docs\.example\/alerts#\w+$/gm) ?? [];
    expect(links.length).toBeGreaterThan(20);
    expect(links).toHaveLength([...rules.matchAll(/runbook/g)].length);
    if (name !== 'rules.yaml') return;
    expect(execFileSync('promtool', ['check', 'rules', join(path, name)], { encoding: 'utf8' })).toContain('SUCCESS');
  });

  test('shows a scrape configuration that Prometheus accepts', () => {
    const path = folder();
    const shown = blocksIn(guide, 'yaml').find((block) => block.startsWith('scrape_configs:')) ?? '';
    // Debian builds Prometheus without Kubernetes discovery, so static targets replace it here.
    const discovery = /kubernetes_sd_configs:\n +- role: pod/;
    expect(shown).toMatch(discovery);
    writeFileSync(join(path, 'prometheus.yml'), shown.replace(discovery, 'static_configs: [{ targets: [] }]'));
    cpSync('deploy/prometheus/rules.yaml', join(path, 'rules.yaml'));
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'config', join(path, 'prometheus.yml')], {
      encoding: 'utf8',
    });
    expect({ status, stdout, stderr }).toMatchObject({ status: 0 });
  });
});

import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import type { IDeployment } from 'kubernetes-models/apps/v1/Deployment';
import { describe, expect, onTestFinished, test } from 'vitest';
import { refusals } from '../../src/errors.ts';
import { describeWhere } from '../support/describe-where.ts';
import { missingTools } from '../support/tools.ts';
import { render } from './manifests.ts';

const page = 'docs/operators.md';
const guide = readFileSync(page, 'utf8');

/** The code blocks of a language, without the indentation of a list that they stand in. */
function blocks(language: string): string[] {
  const fenced = guide.matchAll(new RegExp(`^( *)\`\`\`${language}\n([^]*?)^ *\`\`\`$`, 'gm'));
  return [...fenced].map(([, indent = '', text = '']) => text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''));
}

const commands = blocks('sh').flatMap((block) => block.trim().split('\n'));

/** The links of a page are to headings by what GitHub makes of them. */
function anchorsOf(file: string): Set<string> {
  const headings = readFileSync(file, 'utf8').matchAll(/^#+ (.*)$/gm);
  return new Set(
    [...headings].map(([, text = '']) =>
      text
        .toLowerCase()
        .replaceAll(/[^\w -]/g, '')
        .replaceAll(' ', '-'),
    ),
  );
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'operators-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

describe('the guide for operators', () => {
  test('links to what is there', () => {
    const links = [...guide.matchAll(/\]\(([^)#]*)(?:#([^)]*))?\)/g)].map(([, path = '', anchor]) => ({
      path,
      anchor,
    }));
    expect(links.length).toBeGreaterThan(30);
    const dead = links.filter(({ path, anchor }) => {
      const file = path === '' ? page : join(dirname(page), path);
      return !existsSync(file) || (anchor !== undefined && !anchorsOf(file).has(anchor));
    });
    expect(dead).toEqual([]);
  });

  test('names files and folders that are there', () => {
    const named = [...guide.matchAll(/\bdeploy\/[\w./-]*\w/g)].map(([path]) => path);
    expect(named.length).toBeGreaterThan(8);
    expect(named.filter((path) => !existsSync(path))).toEqual([]);
  });

  test('says of every refusal what to look at', () => {
    const rows = [...guide.matchAll(/^\| \[`(\w+)`\]\(errors\.md#(\w+)\) +\| \S/gm)];
    expect(new Set(rows.map(([, code]) => code))).toEqual(new Set(Object.keys(refusals)));
    expect(rows).toHaveLength(Object.keys(refusals).length);
    for (const [, code, anchor] of rows) expect(anchor).toBe(code);
  });

  test('lists the members of an access line', () => {
    const [, table = ''] = /^## Logs$([^]*?)^## /m.exec(guide) ?? [];
    const listed = [...table.matchAll(/^\| `(\w+)` /gm)].map(([, member]) => member);
    const type =
      /interface AccessLine \{([^]*?)^\}/m.exec(readFileSync('src/telemetry/access-log.ts', 'utf8'))?.[1] ?? '';
    expect(listed).toEqual([...type.matchAll(/readonly (\w+):/g)].map(([, member]) => member));
  });

  test('describes the image’s build arguments', () => {
    const dockerfile = readFileSync('Dockerfile', 'utf8');
    const declared = [...dockerfile.matchAll(/^ARG (\w+)(?:=(.*))?$/gm)].map(([, name, value]) => [name, value]);
    const listed = [...guide.matchAll(/^\| `([A-Z_]+)` +\| (?:`(.*?)`)? +\|/gm)].map(([, name, value]) => [
      name,
      value,
    ]);
    expect(new Map(listed as [string, string][])).toEqual(new Map(declared as [string, string][]));
  });
});

describeWhere(missingTools('kubectl'), 'the guide for operators, with kubectl', () => {
  test('shows manifests that can be rendered', () => {
    const folders = commands.flatMap((command) => /(?:kustomize|--kustomize) (deploy\/\S+)$/.exec(command)?.[1] ?? []);
    expect(new Set(folders)).toEqual(new Set(['deploy/overlays/test', 'deploy/grafana', 'deploy/prometheus']));
    for (const each of folders) expect(render(each)).not.toEqual([]);
  });

  test('adds up the times of a pod’s end as the manifests have them', () => {
    const deployment = render('deploy/overlays/live').find(({ kind }) => kind === 'Deployment') as IDeployment;
    const pod = deployment.spec?.template?.spec;
    const sleep = pod?.containers[0]?.lifecycle?.preStop?.sleep?.seconds ?? 0;
    const [propagation, drain] = [10, 25];
    expect(guide).toContain(`(here ${sleep} > ${propagation + drain})`);
    expect(guide).toContain(`(here ${pod?.terminationGracePeriodSeconds} > ${sleep + drain})`);
    expect(guide).toContain(`preStop: { sleep: { seconds: ${sleep} } }`);
  });

  test('shows how the sidecar is added to a Deployment of one’s own', () => {
    const own = folder();
    cpSync('test/deploy/own-deployment/deployments.yaml', join(own, 'deployments.yaml'));
    cpSync('deploy/overlays/live/sidecar.yaml', join(own, 'sidecar.yaml'));
    const shown = blocks('yaml').find((block) => block.startsWith('components:')) ?? '';
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

describeWhere(missingTools('promtool'), 'the guide for operators, with promtool', () => {
  test.each(commands.filter((command) => command.startsWith('promtool ')))(
    '%s',
    (command) => {
      expect(execFileSync('bash', ['-c', command], { encoding: 'utf8' })).toContain('SUCCESS');
    },
    120_000,
  );

  test('shows a scrape configuration that Prometheus takes', () => {
    const path = folder();
    const shown = blocks('yaml').find((block) => block.startsWith('scrape_configs:')) ?? '';
    // Debian builds Prometheus without the discovery of Kubernetes.
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

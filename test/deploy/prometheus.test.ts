import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { describeUnless } from '../support/describe-unless.ts';
import { configOf, startSidecar } from '../support/sidecar.ts';
import { missingTools } from '../support/tools.ts';
import { formatted } from './formatted.ts';

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

interface RulesFile {
  readonly groups: readonly {
    readonly rules: readonly (Alert | { readonly record: string; readonly expr: string })[];
  }[];
}

interface TestFile {
  readonly tests: readonly {
    readonly alert_rule_test?: readonly { readonly alertname: string; readonly exp_alerts: readonly unknown[] }[];
  }[];
}

const rulesFile = 'deploy/prometheus/rules.yaml';
const testFiles = globSync('deploy/prometheus/*.test.yaml');
const parsed = parse(readFileSync(rulesFile, 'utf8')) as RulesFile;
const rules = parsed.groups.flatMap((group) => group.rules);
const alerts = rules.filter((rule) => 'alert' in rule);

describeUnless(missingTools('promtool'), 'the rules, checked by promtool,', () => {
  test('are valid', () => {
    expect(execFileSync('promtool', ['check', 'rules', rulesFile], { encoding: 'utf8' })).toContain('SUCCESS');
  });

  test('pass their unit tests', () => {
    expect(testFiles.length).toBeGreaterThan(0);
    const { stdout } = promtool(['test', 'rules', ...testFiles]);
    expect(stdout).not.toContain('FAILED');
    expect(stdout.match(/SUCCESS/g)).toHaveLength(testFiles.length);
  }, 240_000);
});

function promtool(args: readonly string[]): { stdout: string } {
  try {
    return { stdout: execFileSync('promtool', args, { encoding: 'utf8' }) };
  } catch (error) {
    return error as { stdout: string };
  }
}

describe('the rules', () => {
  test('use only metrics that a sidecar has', async () => {
    const sidecar = await startSidecar(configOf('http://127.0.0.1:9'));
    const metrics = await (await fetch(`${sidecar.adminUrl}/metrics`)).text();
    // Some metrics exist only with the operators' API or a database. docs/metrics.md lists all of them, which its own
    // test checks.
    const described = readFileSync('docs/metrics.md', 'utf8').matchAll(/^### `(\w+)`$/gm);
    const names = new Set([...metrics.matchAll(/^# TYPE (\S+)/gm), ...described].map(([, name]) => name));
    // Finds names of metrics. Recorded names, which contain a colon, are excluded, as is a regular expression that
    // stands for two names.
    const used = rules.flatMap(({ expr }) => expr.match(/(?<![:\w])(?:envelope_sidecar|process)_\w+(?![:\w(])/g) ?? []);
    expect(used.length).toBeGreaterThan(20);
    expect(used.filter((name) => !names.has(name))).toEqual([]);
  });

  test('are the same in the object for the Prometheus Operator', async () => {
    const path = 'deploy/prometheus/prometheus-rule.yaml';
    const object = {
      apiVersion: 'monitoring.coreos.com/v1',
      kind: 'PrometheusRule',
      metadata: { name: 'envelope-sidecar' },
      spec: parsed,
    };
    const how = '# Generated from rules.yaml by `npm test -- test/deploy/prometheus.test.ts -u`.\n';
    await expect(await formatted(path, how + stringify(object, { lineWidth: 0 }))).toMatchFileSnapshot(resolve(path));
  });
});

describe.each(alerts.map((alert) => [alert.alert, alert] as const))('%s', (name, { labels, annotations }) => {
  test('is tested both firing and not firing', () => {
    const expectations = testFiles
      .flatMap((file) => (parse(readFileSync(file, 'utf8')) as TestFile).tests)
      .flatMap(({ alert_rule_test: tests = [] }) => tests)
      .filter(({ alertname }) => alertname === name)
      .map(({ exp_alerts: expected }) => (expected.length > 0 ? 'firing' : 'not firing'));
    expect(new Set(expectations)).toEqual(new Set(['firing', 'not firing']));
  });

  test('has a severity, a summary and a link to the runbook', () => {
    expect(labels['severity']).toMatch(/^(?:critical|warning|info)$/);
    expect(annotations['summary']).toMatch(/\{\{ \$labels\.(?:environment|pod|certificate) \}\}|\$labels\.namespace/);
    expect(annotations['description']).toContain('{{ $labels.namespace }}');
    expect(annotations['runbook']).toBe(`docs/operators/alerts.md#${name.toLowerCase()}`);
    // Readers click on this link, so it must be absolute or absent.
    expect(annotations).not.toHaveProperty('runbook_url');
    expect(readFileSync('docs/operators/alerts.md', 'utf8')).toMatch(new RegExp(`^#+ ${name}$`, 'm'));
  });
});

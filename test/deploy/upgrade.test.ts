import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { describeUnless } from '../support/describe-unless.ts';
import { missingTools } from '../support/tools.ts';

/** The commands for an upgrade in a cluster, from the runbook. */
function upgradeCommands(): string {
  const section = readFileSync('docs/runbook.md', 'utf8').split('\n## Upgrade and rollback\n')[1] ?? '';
  const [, indent = '', commands = ''] = /^( *)```sh\n([^]*?)^ *```$/m.exec(section) ?? [];
  expect(commands).toContain('kubectl apply');
  return commands.replaceAll(new RegExp(`^${indent}`, 'gm'), '');
}

/**
 * A substitute for `kubectl` and a cluster. It renders manifests with the real kubectl, keeps the Jobs in its folder, and refuses to change
 * an existing Job, as the API server does ("field is immutable"). `wait` succeeds if the Job exists.
 */
const cluster = (kubectl: string): string => `#!/usr/bin/env node
const { execFileSync } = require('node:child_process');
const { existsSync, readFileSync, writeFileSync, appendFileSync } = require('node:fs');
const args = process.argv.slice(2);
appendFileSync('calls', args.join(' ') + '\\n');
const fail = (message) => { console.error(message); process.exit(1); };
const stateOf = (job) => job.replace('/', '.') + '.yaml';
if (args[0] === 'apply') {
  const text = execFileSync(${JSON.stringify(kubectl)}, ['kustomize', args[args.indexOf('--kustomize') + 1]], { encoding: 'utf8' });
  for (const manifest of text.split(/^---$/m)) {
    if (!/^kind: Job$/m.test(manifest)) continue;
    const file = stateOf('job/' + /^  name: (.*)$/m.exec(manifest)[1]);
    if (existsSync(file) && readFileSync(file, 'utf8') !== manifest) fail('spec.template: field is immutable');
    writeFileSync(file, manifest);
  }
}
const job = args.find((arg) => arg.startsWith('job/'));
if (job !== undefined && !existsSync(stateOf(job))) fail('not found: ' + job);
`;

describeUnless(missingTools('kubectl'), 'the upgrade of the runbook', () => {
  test("applies a new version although the previous version's Job is still there, waits for the new Job, and can be repeated", () => {
    const folder = mkdtempSync(join(tmpdir(), 'upgrade-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    cpSync('deploy', join(folder, 'deploy'), { recursive: true });
    const kubectl = execFileSync('sh', ['-c', 'command -v kubectl'], { encoding: 'utf8' }).trim();
    writeFileSync(join(folder, 'kubectl'), cluster(kubectl));
    chmodSync(join(folder, 'kubectl'), 0o755);
    const upgradeTo = (version: string): unknown => {
      const env = { ...process.env, PATH: [folder, process.env['PATH']].join(delimiter), VERSION: version };
      const { status, stderr } = spawnSync('sh', ['-eu'], {
        cwd: folder,
        env,
        input: upgradeCommands(),
        encoding: 'utf8',
      });
      return { status, stderr };
    };
    const overlay = join(folder, 'deploy/overlays/live-postgres/kustomization.yaml');
    const image = 'name: envelope-sidecar, ';
    const text = readFileSync(overlay, 'utf8');
    writeFileSync(overlay, text.replace(image, `${image}newName: registry.example:5000/pay/envelope-sidecar, `));
    const good = { status: 0, stderr: '' };
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
    expect(upgradeTo(version)).toEqual(good);
    expect(upgradeTo('9.0.0')).toEqual(good);
    expect(upgradeTo('9.0.0')).toEqual(good);
    const calls = readFileSync(join(folder, 'calls'), 'utf8').trim().split('\n');
    expect(calls.filter((call) => call.startsWith('apply'))).toHaveLength(3);
    expect(calls.at(-1)).toContain('rollout status');
    const job = readFileSync(join(folder, 'job.envelope-sidecar-migration-9.0.0.yaml'), 'utf8');
    expect(job).toContain('image: registry.example:5000/pay/envelope-sidecar:9.0.0\n');
  });
});

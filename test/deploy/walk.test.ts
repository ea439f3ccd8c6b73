import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createPaymentCore } from '../../src/demo/payment-core.ts';
import { envelopeOf, send } from '../support/client.ts';
import { describeUnless } from '../support/describe-unless.ts';
import { Folder } from '../support/folder.ts';
import { freePorts } from '../support/free-port.ts';
import { postgresPrograms, usePostgres } from '../support/postgres.ts';
import { missingTools } from '../support/tools.ts';
import { dashboard, queries } from './dashboard.ts';
import { prometheusAt, type PrometheusServer } from './prometheus-server.ts';

const page = readFileSync('docs/operators/walk.md', 'utf8');
const commands = [...page.matchAll(/^```sh run\n([^]*?)^```$/gm)].map(([, code = '']) => code);
const missing = postgresPrograms === undefined ? 'PostgreSQL not found' : missingTools('prometheus');

describeUnless(missing, 'the walk of docs/operators/walk.md', () => {
  const postgres = usePostgres();

  test('leads from an empty folder to two sidecars, alerts and a revoked key, and to a dashboard with data', async () => {
    const core = createPaymentCore(() => {}).listen(0, '127.0.0.1');
    onTestFinished(() => void core.close());
    await once(core, 'listening');
    const folder = new Folder({});
    const env = {
      DATABASE_URL: await postgres.createDatabase(),
      DEPLOY: resolve('deploy'),
      PATH: [resolve('bin'), process.env['PATH']].join(':'),
      // Without a cache, each of the dozen short commands would compile the same sources again.
      NODE_COMPILE_CACHE: folder.file('cache'),
    };
    const ports = new Map([['3000', (core.address() as AddressInfo).port]]);
    const shownPorts = ['8080', '8081', '9090', '9091', '9092', '9093', '9095'];
    const free = await freePorts(shownPorts.length);
    shownPorts.forEach((shown, i) => ports.set(shown, free[i] ?? 0));
    // Replaces all ports in one pass, so that a free port is never mistaken for another port on the page.
    const script = commands
      .join('echo "--- next"\n')
      .replaceAll(/\b(?:3000|80[89]\d|909\d)\b/g, (shown) => `${ports.get(shown)}`);
    const printed = await runInBackground(script, folder, env);
    const [, configured = '', , merchant = '', alerts = '', leaked = ''] = printed.split('--- next\n');

    expect(configured).toMatch(/^ok +store [^]*^ok +credentials [^]*^ok +upstream test [^]*^ok +certificate [^]*^OK$/m);
    expect(merchant.match(/"amount":1250/g)).toHaveLength(2);
    expect(alerts).toContain('EnvelopeSidecarKeyExpiresThisWeek');
    expect(alerts).toContain('EnvelopeSidecarReloadFailed');
    expect(alerts).toContain('"amount":1250');
    expect(alerts).toMatch(/"problem":"\S*sidecar\.yaml:\d+:\d+ +oops +/);
    expect(leaked).toMatch(/^account +acme$/m);
    expect(leaked.match(/"code":"invalid_api_key"/g)).toHaveLength(2);
    expect(leaked).toMatch(/key_revoked +acme/);
    expect(merchant).toContain('"ready":true');
    expect(existsSync(folder.file('sidecar.schema.json'))).toBe(true);

    const credentials = JSON.parse(readFileSync(folder.file('credentials.json'), 'utf8')) as {
      key: string;
      iv: string;
    };
    const { key } = JSON.parse(readFileSync(folder.file('key.json'), 'utf8')) as { key: string };
    await expectDataEverywhere(prometheusAt(`127.0.0.1:${ports.get('9095')}`), async () => {
      const sidecar = { port: ports.get('8080') ?? 0 };
      await Promise.all([
        send(sidecar, 'POST /api/s2s/charge', {
          key,
          body: envelopeOf(credentials, '{"amount":1000,"currency":"EUR"}'),
        }),
        send(sidecar, 'POST /api/s2s/charge', { key, body: '{"data":"00"}' }),
        send(sidecar, 'GET /api/v1/transactions', {
          key: `${key.slice(0, -6)}${Math.random().toString(36).slice(2, 8)}`,
        }),
      ]);
    });
  }, 90_000);
});

/**
 * Runs a script in a folder and returns its output. After the test, ends the processes that the script has left
 * running.
 */
async function runInBackground(script: string, folder: Folder, env: Readonly<Record<string, string>>): Promise<string> {
  // The script runs in its own process group, so that its processes can be killed together.
  const shell = spawn('bash', ['-eu', '-o', 'pipefail'], {
    cwd: folder.path,
    env: { ...process.env, ...env },
    stdio: 'pipe',
    detached: true,
  });
  await once(shell, 'spawn');
  const group = shell.pid;
  if (group !== undefined) onTestFinished(() => void process.kill(-group, 'SIGKILL'));
  const printed = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    shell[name].setEncoding('utf8').on('data', (text: string) => (printed[name] += text));
  }
  shell.stdin.end(`${script}\necho "--- end"\n`);
  // Wait for the shell to exit, not for its streams to close, because background processes keep the streams open.
  const [code] = (await once(shell, 'exit')) as [number | null];
  await expect.poll(() => `${code} ${printed.stdout.slice(-200)} ${printed.stderr}`).toContain('--- end\n');
  return printed.stdout;
}

/** Expects every panel and every variable of the dashboard to have data, and every rule to be valid. */
async function expectDataEverywhere(prometheus: PrometheusServer, load: () => Promise<unknown>): Promise<void> {
  const filled = (expr: string): string =>
    expr
      .replaceAll('$namespace', 'walk')
      .replaceAll('$pod', 'first|second')
      .replaceAll('$environment', '.*')
      .replaceAll('$__rate_interval', '10s');
  const isEmpty = async (expr: string): Promise<boolean> =>
    !(await prometheus.query(filled(expr))).some(({ value }) => Number.isFinite(Number(value[1])));
  let empty = queries;
  const withoutData = async (): Promise<unknown> => {
    await load();
    const checked = await Promise.all(empty.map(async (query) => ({ query, isEmpty: await isEmpty(query.expr) })));
    empty = checked.filter((each) => each.isEmpty).map(({ query }) => query);
    return empty;
  };
  await expect.poll(withoutData, { timeout: 20_000, interval: 250 }).toEqual([]);
  const variables = dashboard.templating.list.flatMap(({ name, query }) =>
    typeof query === 'object' ? [{ name, query: String(query.query) }] : [],
  );
  expect(variables.map(({ name }) => name)).toEqual(['namespace', 'pod', 'environment']);
  for (const { name, query } of variables) {
    const [, series = '', label = ''] = /^label_values\((.+), (\w+)\)$/.exec(filled(query)) ?? [];
    expect({ name, values: await prometheus.labelValues(series, label) }).not.toEqual({ name, values: [] });
  }
  const rules = await prometheus.rules();
  expect(rules.length).toBeGreaterThan(20);
  expect(rules.filter(({ health }) => health !== 'ok')).toEqual([]);
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, onTestFinished } from 'vitest';

/** A sample of an instant vector. */
interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [time: number, value: string];
}

interface Rule {
  readonly name: string;
  readonly health: 'ok' | 'err' | 'unknown';
  readonly lastError?: string;
}

/** A Prometheus that scrapes one sidecar, ended when the test is over. */
export interface PrometheusServer {
  /** An instant query. @throws what Prometheus says of a query that is not valid */
  query(expr: string): Promise<readonly Sample[]>;
  /** The values of a label on the series that match. */
  labelValues(series: string, label: string): Promise<readonly string[]>;
  rules(): Promise<readonly Rule[]>;
}

/** Starts a Prometheus that scrapes each second, with the labels that the PodMonitor would give. */
export async function startPrometheus(target: string, rulesFile: string): Promise<PrometheusServer> {
  const folder = mkdtempSync(join(tmpdir(), 'prometheus-'));
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [resolve(rulesFile)],
    scrape_configs: [
      {
        job_name: 'payments-test/envelope-sidecar',
        static_configs: [{ targets: [target], labels: { namespace: 'payments-test', pod: 'payment-core-1' } }],
      },
    ],
  };
  writeFileSync(join(folder, 'prometheus.yml'), JSON.stringify(config));
  const address = `127.0.0.1:${await freePort()}`;
  const options = {
    'config.file': join(folder, 'prometheus.yml'),
    'storage.tsdb.path': join(folder, 'data'),
    'web.listen-address': address,
    'log.level': 'error',
  };
  const child = spawn(
    'prometheus',
    Object.entries(options).map(([name, value]) => `--${name}=${value}`),
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
  onTestFinished(async () => {
    const ended = once(child, 'exit');
    child.kill();
    await ended;
    rmSync(folder, { recursive: true });
  });

  const get = async (path: string): Promise<unknown> => {
    const response = await fetch(`http://${address}/api/v1/${path}`);
    const { status, data, error } = (await response.json()) as { status: string; data: unknown; error?: string };
    if (status !== 'success') throw new Error(error);
    return data;
  };
  await expect.poll(async () => (await fetch(`http://${address}/-/ready`)).status, { timeout: 20_000 }).toBe(200);
  return {
    query: async (expr) =>
      ((await get(`query?query=${encodeURIComponent(expr)}`)) as { readonly result: readonly Sample[] }).result,
    labelValues: async (series, label) =>
      (await get(`label/${label}/values?match[]=${encodeURIComponent(series)}`)) as readonly string[],
    rules: async () =>
      ((await get('rules')) as { readonly groups: readonly { readonly rules: readonly Rule[] }[] }).groups.flatMap(
        (group) => group.rules,
      ),
  };
}

/** Prometheus does not say which port it took, so that it has to be given one. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

import { spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const apiKey = 'sk_live_acmeacmeacmeacmeacmeacme';
export const credentials = { key: 'p4Wn6bVc2KsH8dTf0QaZ5xJm3GyRu7Le', iv: 'Bn4Mx8Cz1Vl6Kj3H' } as const;

/** A sidecar in a separate process that serves `live` and does not count failures. */
export interface LiveSidecar {
  readonly port: number;
  /** The complete log so far. */
  log(): readonly Readonly<Record<string, unknown>>[];
  stop(): Promise<void>;
}

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

export async function startLiveSidecar(): Promise<LiveSidecar> {
  const directory = mkdtempSync(join(tmpdir(), 'sidecar-oracle-'));
  const write = (name: string, content: unknown): string => {
    const file = join(directory, name);
    // JSON is also valid YAML.
    writeFileSync(file, JSON.stringify(content));
    return file;
  };
  write('accounts.yaml', {
    accounts: [
      {
        id: 'acme',
        name: 'Acme Stores',
        keys: [{ id: 'acme-1', key: apiKey, createdAt: '2026-01-01' }],
        encryption: { live: { enabled: true, ...credentials } },
      },
    ],
  });
  const config = write('sidecar.yaml', {
    listen: { host: '127.0.0.1', port: 0 },
    admin: { host: '127.0.0.1', port: 0 },
    // No envelope opens, so no request is forwarded to this address.
    environments: { live: { upstream: 'http://127.0.0.1:9' } },
    accounts: { file: 'accounts.yaml' },
    routes: [{ path: '/api/s2s/*', envelope: true }],
    limits: { failedKeys: '999999999/1m' },
  });

  // The log is written to a file, so that no reader takes CPU time during the measurement.
  const logFile = join(directory, 'log');
  const output = openSync(logFile, 'a');
  const child = spawn(process.execPath, [main, 'serve', '--config', config], { stdio: ['ignore', output, 'inherit'] });
  closeSync(output);
  const exited = new Promise<void>((resolve) => void child.once('exit', () => resolve()));
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL');
    await exited;
    rmSync(directory, { recursive: true });
  };

  const log: LiveSidecar['log'] = () =>
    readFileSync(logFile, 'utf8')
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  for (;;) {
    const merchants = log().find(({ listener }) => listener === 'merchants');
    if (merchants !== undefined) return { port: Number(merchants['port']), log, stop };
    if (child.exitCode !== null) {
      await stop();
      throw new Error(`the sidecar ended with exit code ${child.exitCode}`);
    }
    await new Promise((resolve) => void setTimeout(resolve, 20));
  }
}

import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { acmeTest, keys } from './sidecar.ts';

/** A sidecar in a process of its own. */
export interface SidecarProcess {
  readonly process: ChildProcess;
  /** Of the merchants' listener. */
  readonly port: number;
  readonly adminUrl: string;
  /** Maximum memory it ever had resident, in bytes. */
  peakMemory(): number;
}

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** Starts `serve` in front of an upstream, with the accounts that all tests use; ended when the test is over. */
export async function startSidecarProcess(
  upstream: string,
  { nodeOptions = [] }: { readonly nodeOptions?: readonly string[] } = {},
): Promise<SidecarProcess> {
  const directory = mkdtempSync(join(tmpdir(), 'sidecar-'));
  const config = {
    listen: { host: '127.0.0.1', port: 0 },
    admin: { host: '127.0.0.1', port: 0 },
    environments: { test: { upstream } },
    accounts: { file: 'accounts.yaml' },
    routes: [{ path: '/api/s2s/*', envelope: true }],
  };
  const accounts = [
    {
      id: 'acme',
      name: 'Acme Stores',
      active: true,
      keys: [{ id: 'acme-1', key: keys.acme, createdAt: '2026-01-01' }],
      encryption: { test: { enabled: true, ...acmeTest } },
    },
    {
      id: 'globex',
      name: 'Globex',
      active: true,
      keys: [{ id: 'globex-1', key: keys.globex, createdAt: '2026-01-01' }],
    },
  ];
  // JSON is YAML.
  writeFileSync(join(directory, 'sidecar.yaml'), JSON.stringify(config));
  writeFileSync(join(directory, 'accounts.yaml'), JSON.stringify({ accounts }));
  const child = spawn(process.execPath, [...nodeOptions, main, 'serve', '--config', join(directory, 'sidecar.yaml')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(async () => {
    if (child.exitCode === null) {
      const exited = new Promise((resolve) => void child.once('exit', resolve));
      child.kill('SIGKILL');
      await exited;
    }
    rmSync(directory, { recursive: true });
  });

  const ports = new Map<string, number>();
  await new Promise<void>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the sidecar ended with exit code ${code}`)));
    createInterface({ input: child.stdout }).on('line', (line) => {
      const entry = JSON.parse(line) as { msg?: string; listener?: string; port?: number };
      if (entry.msg !== 'listening') return;
      ports.set(entry.listener ?? '', entry.port ?? 0);
      if (ports.size === 2) resolve();
    });
  });
  return {
    process: child,
    port: ports.get('merchants') ?? 0,
    adminUrl: `http://127.0.0.1:${ports.get('admin')}`,
    peakMemory: () => {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
      return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) * 1_024;
    },
  };
}

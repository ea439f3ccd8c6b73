import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { loadConfig } from '../config/load.ts';
import type { Config } from '../config/config.ts';
import { demoCommands, type DemoAccounts } from '../demo/commands.ts';
import { createPaymentCore } from '../demo/payment-core.ts';
import { createLogger } from '../telemetry/logger.ts';
import { complain } from './complain.ts';
import { invalidConfiguration } from './invalid-configuration.ts';
import { exitCodes, type CliIo } from './io.ts';
import { startApp, stopSignals, untilStopped } from './serve.ts';

const shippedConfig = join(dirname(fileURLToPath(import.meta.url)), '../../config/sidecar.yaml');

/**
 * `demo`: a stand-in payment core, the sidecar in front of it on the shipped configuration, and commands to paste.
 * Runs until a signal ends it. Returns the exit code.
 *
 * @param options.freePorts any free ports instead of the configured ones, for machines where those are taken
 */
export async function demo(io: CliIo, options: { readonly freePorts: boolean }): Promise<number> {
  const loaded = loadConfig(relative('.', shippedConfig), io.env);
  if (!loaded.ok) return invalidConfiguration(io, loaded.problems);
  const signals = stopSignals(io);
  const core = createPaymentCore((line) => void io.stdout.write(`payment core │ ${line}\n`));
  const corePort = await listen(core, options.freePorts ? 0 : upstreamPort(loaded.config));
  if (typeof corePort === 'string') {
    await complain(io, `demo: ${corePort} (--free-ports takes others)\n`);
    return exitCodes.failed;
  }
  const config = options.freePorts ? onFreePorts(loaded.config, corePort) : loaded.config;
  const log = createLogger(config.log.level, io.log);
  const app = await startApp(io, 'demo', config, log);
  if (app === undefined) {
    core.close();
    return exitCodes.failed;
  }
  // The configuration keeps no key in the clear; the demo's are shown from the file that everybody can read.
  const accounts = parse(readFileSync(join(dirname(shippedConfig), 'accounts.yaml'), 'utf8')) as DemoAccounts;
  await io.stdout.write(demoCommands(`http://127.0.0.1:${app.addresses.merchants.port}`, accounts));
  // Once the reader has left, nothing that the demo shows can be seen.
  const first = Promise.race([signals.first, io.stdout.failed]);
  return untilStopped({ ...signals, first }, log, async () => {
    await app.stop();
    core.closeAllConnections();
    core.close();
  });
}

function upstreamPort(config: Config): number {
  return Number(new URL(config.environments[0]?.upstream.origin ?? '').port);
}

function onFreePorts(config: Config, corePort: number): Config {
  return {
    ...config,
    listen: { ...config.listen, port: 0 },
    admin: { ...config.admin, port: 0 },
    environments: config.environments.map((environment) => ({
      ...environment,
      upstream: { ...environment.upstream, origin: `http://127.0.0.1:${corePort}` },
    })),
  };
}

/** Opens a server on loopback; its port, or why it cannot be opened. */
function listen(server: Server, port: number): Promise<number | string> {
  return new Promise((resolve) => {
    server.once('error', (error) => resolve(error.message));
    server.listen(port, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
}

import { randomBytes } from 'node:crypto';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { App } from '../app.ts';
import { rankedRoles } from '../config/choices.ts';
import { loadConfig } from '../config/load.ts';
import { demoCommands, type DemoAccounts, type DemoOperator } from '../demo/commands.ts';
import { createPaymentCore } from '../demo/payment-core.ts';
import { withPlainRefusals } from '../demo/refusals.ts';
import { listen } from '../http.ts';
import { packageFile } from '../package-file.ts';
import { createLogger } from '../telemetry/logger.ts';
import { CommandFailed, valid } from './failures.ts';
import type { CliIo } from './io.ts';
import { createReloader, startApp, untilStopped } from './serve.ts';
import { stopSignals } from './start.ts';

const shipped = packageFile('config');

/** The parts of the shipped configuration that the demo changes. */
interface ShippedFile {
  readonly listen: object;
  readonly admin: object;
  readonly environments: { readonly test: { readonly upstream: string } };
}

/**
 * `demo`: runs a stand-in payment core and, in front of it, the sidecar with the shipped configuration, and prints commands to paste. The
 * demo works on a copy of the accounts, so changes made in the console are lost when the demo ends. The demo runs until a signal ends it.
 * Returns the exit code.
 *
 * @param options.freePorts whether to use free ports instead of the configured ones
 * @throws CommandFailed if a listener cannot be opened
 */
export async function demo(io: CliIo, { freePorts }: { readonly freePorts: boolean }): Promise<number> {
  const signals = stopSignals(io);
  const base = parse(readFileSync(join(shipped, 'sidecar.yaml'), 'utf8')) as ShippedFile;
  const print = (line: string): void => void io.stdout.write(`${line}\n`);
  const core = createPaymentCore((line) => print(`payment core │ ${line}`));
  const corePort = await listenOnLoopback(core, freePorts ? 0 : Number(new URL(base.environments.test.upstream).port));
  const folder = mkdtempSync(join(tmpdir(), 'sidecar-demo-'));
  try {
    const operators = rankedRoles.map((role): DemoOperator => ({ role, token: randomBytes(24).toString('hex') }));
    const file = join(folder, 'sidecar.yaml');
    copyFileSync(join(shipped, 'accounts.yaml'), join(folder, 'accounts.yaml'));
    writeFileSync(file, JSON.stringify(demoFile(base, operators, freePorts ? corePort : undefined)), { mode: 0o600 });

    const loaded = valid(loadConfig(file, io.env));
    const log = createLogger(loaded.config.log.level, withPlainRefusals(io.log, print));
    const app = await startApp(io, loaded, log);
    const reloader = createReloader(io, file, app, log);
    reloader.watch(loaded.files);
    await io.stdout.write(commandsFor(app.addresses, operators));
    // If the reader closes the pipe, the demo ends, because its output can no longer be seen.
    const first = Promise.race([signals.first, io.stdout.failed]);
    return await untilStopped({ ...signals, first }, log, () => app.stop(() => reloader.stop()));
  } finally {
    core.closeAllConnections();
    core.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The commands to paste. The loaded configuration has no keys in the clear, so the demo's keys are read from the shipped accounts file. */
function commandsFor({ merchants, operators: api }: App['addresses'], operators: readonly DemoOperator[]): string {
  const { accounts } = parse(readFileSync(join(shipped, 'accounts.yaml'), 'utf8')) as DemoAccounts;
  const urls = {
    merchants: `http://127.0.0.1:${merchants.port}`,
    console: `http://127.0.0.1:${api?.port}/console/`,
  };
  return demoCommands(urls, accounts, operators);
}

/** @param corePort the port of the payment core; undefined if the configured ports are used */
function demoFile(base: ShippedFile, operators: readonly DemoOperator[], corePort: number | undefined): object {
  const tokens = operators.map(({ role, token }) => ({ name: `demo-${role}`, role, token }));
  if (corePort === undefined) return { ...base, operators: { tokens } };
  return {
    ...base,
    listen: { ...base.listen, port: 0 },
    admin: { ...base.admin, port: 0 },
    operators: { port: 0, tokens },
    environments: { test: { ...base.environments.test, upstream: `http://127.0.0.1:${corePort}` } },
  };
}

/** Opens the payment core's listener. Returns its port. @throws CommandFailed if the port is taken */
async function listenOnLoopback(server: Server, port: number): Promise<number> {
  try {
    return (await listen(server, { host: '127.0.0.1', port })).port;
  } catch (error) {
    throw new CommandFailed(`${(error as Error).message} (use --free-ports for other ports)`);
  }
}

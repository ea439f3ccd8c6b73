import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Registry } from 'prom-client';
import { memoryDirectory } from './accounts/memory-directory.ts';
import { createAdminListener } from './admin/admin.ts';
import type { Config, Listener } from './config/config.ts';
import { Gateway } from './gateway/gateway.ts';
import { createListener } from './gateway/listener.ts';
import { Rules } from './gateway/rules.ts';
import type { Logger } from './telemetry/logger.ts';
import { Metrics } from './telemetry/metrics.ts';
import { Upstream } from './upstream/upstream.ts';

/** How long idle connections are left open at shutdown, so that a request just sent on one still gets its answer. */
const idleLinger = 1_000;

/** A running sidecar. */
export interface App {
  /** Bound addresses: the configuration may ask for any free port. */
  readonly merchants: AddressInfo;
  readonly admin: AddressInfo;
  /** Stops being ready and closes connections with their next answer; resolves when nothing is in flight or the time is over. */
  drain(): Promise<void>;
  /** Drains and closes everything. */
  stop(): Promise<void>;
}

/**
 * Puts the parts together and opens the listeners: the one place that knows them all.
 *
 * @param clock epoch milliseconds
 * @throws the listener's error where an address cannot be bound
 */
export async function startApp(config: Config, log: Logger, clock: () => number): Promise<App> {
  const registry = new Registry();
  const { timeouts, limits } = config;
  const upstreams = new Map(
    config.environments.map(({ name, upstream }) => [name, new Upstream(upstream, timeouts.connect, limits.inFlight)]),
  );
  const rules = new Rules(config, memoryDirectory(config.accounts), upstreams);
  const metrics = new Metrics(registry, () => gateway.inFlight);
  const gateway: Gateway = new Gateway(rules, log, metrics, clock);

  let ready = false;
  let drained: Promise<void> | undefined;
  const drain = (): Promise<void> => {
    if (drained === undefined) {
      ready = false;
      gateway.drain();
      log.info('draining');
      drained = until(() => gateway.inFlight === 0, timeouts.drain);
    }
    return drained;
  };

  const merchantsListener = createListener(config, gateway);
  const adminListener = createAdminListener({ registry, isReady: () => ready, drain });
  const admin = await open('admin', adminListener, config.admin, log);
  let merchants: AddressInfo;
  try {
    merchants = await open('merchants', merchantsListener, config.listen, log);
  } catch (error) {
    adminListener.close();
    throw error;
  }
  ready = true;

  const stop = async (): Promise<void> => {
    const began = performance.now();
    await drain();
    const connections = (): Promise<number> =>
      new Promise((resolve) => void merchantsListener.getConnections((_error, count) => resolve(count ?? 0)));
    while ((await connections()) > 0 && performance.now() - began < Math.min(idleLinger, timeouts.drain)) await tick();
    const closed = new Promise((resolve) => void merchantsListener.close(resolve));
    await Promise.race([
      closed,
      until(() => gateway.inFlight === 0, Math.max(0, timeouts.drain - (performance.now() - began))),
    ]);
    gateway.stop();
    merchantsListener.closeAllConnections();
    await closed;
    adminListener.close();
    adminListener.closeAllConnections();
    await Promise.all([...upstreams.values()].map((upstream) => upstream.close()));
    log.info('stopped');
  };
  return { merchants, admin, drain, stop };
}

async function open(listener: string, server: Server, { host, port }: Listener, log: Logger): Promise<AddressInfo> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const address = server.address() as AddressInfo;
  log.info({ listener, address: address.address, port: address.port }, 'listening');
  return address;
}

/** Resolves when the condition holds, looked at now and then, or after so many milliseconds. */
async function until(holds: () => boolean, milliseconds: number): Promise<void> {
  const end = performance.now() + milliseconds;
  while (!holds() && performance.now() < end) await tick();
}

function tick(): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, 20));
}

import { Registry } from 'prom-client';
import { onTestFinished } from 'vitest';
import type { KeyDirectory } from '../../src/accounts/key-directory.ts';
import type { Limits, Timeouts } from '../../src/config/config.ts';
import { Listener } from '../../src/http1/listener.ts';
import { GatewaySnapshot } from '../../src/proxy/admit/snapshot.ts';
import { Proxy } from '../../src/proxy/proxy.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { TrafficRecorder } from '../../src/telemetry/traffic-recorder.ts';
import { Upstreams } from '../../src/upstream/upstream.ts';
import { listen } from './listen.ts';
import { configOf } from './sidecar.ts';

/** Starts a gateway that looks keys up in `directory`. Returns its port. */
export async function startOverDirectory(
  directory: KeyDirectory,
  limits: Partial<Limits>,
  timeouts: Partial<Timeouts> = {},
): Promise<{ readonly port: number }> {
  const config = configOf('http://127.0.0.1:1', { limits, timeouts });
  const silent = createLogger('silent', { write: () => {} });
  const recorder = new TrafficRecorder(new Registry(), silent, Date.now, '0.0.0');
  const upstreams = new Upstreams(() => {}).configure(config);
  const proxy = new Proxy(new GatewaySnapshot(config, upstreams), directory, silent, recorder, Date.now);
  const clients = { headTimeout: 10_000, idleTimeout: 10_000, lingerTimeout: 2_000 };
  const { server } = new Listener(
    {
      limits: { maxHeadSize: 16_384, maxFields: 100, ...clients },
      tls: undefined,
      clock: Date.now,
    },
    (connection) => proxy.accept(connection),
  );
  onTestFinished(() => proxy.stop());
  return { port: await listen(server) };
}

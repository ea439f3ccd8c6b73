import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { App } from '../../src/app.ts';
import { loadConfig } from '../../src/config/load.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import type { Contents } from '../../test/support/folder.ts';
import { everyFeature, startBacking, type FeatureOptions } from '../load/every-feature.ts';
import { Stage, type Defer } from '../load/stage.ts';
import type { PeerTls } from '../load/tls-socket.ts';
import { Operators } from '../load/operators.ts';
import { startByteServer } from './byte-server.ts';

/** Where the client of a lane connects. */
export interface Entry {
  readonly port: number;
  readonly tls: PeerTls | undefined;
  /** Whether the sidecar only reports violations of route rules. */
  readonly reports: boolean;
}

/**
 * Two sidecars in this process with the accounts in one database and every feature on. One speaks TLS to merchants and
 * to the upstream and only reports violations of route rules; the other speaks plain HTTP and enforces the rules.
 */
export interface WatchedSidecars {
  /**
   * Where the client of a lane connects. One lane in eight uses TLS; with more, handshakes would take most of the time.
   */
  entryOf(lane: number): Entry;
  /** Returns and clears unexpected events: errors in the logs, uncaught exceptions, failures of the operators' API. */
  takeFaults(): readonly string[];
  stop(): Promise<void>;
}

/** @param onData for the upstream, as in `startByteServer` */
export async function startWatched(
  onData: Parameters<typeof startByteServer>[0],
  accounts: Contents,
  timeouts: FeatureOptions['timeouts'],
): Promise<WatchedSidecars> {
  const stage = new Stage();
  const faults: string[] = [];
  const onUncaught = (error: unknown): void => {
    faults.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
  };
  process.on('uncaughtException', onUncaught).on('unhandledRejection', onUncaught);
  stage.defer(() => void process.off('uncaughtException', onUncaught).off('unhandledRejection', onUncaught));
  const backing = await startBacking(stage.defer);
  const database = await backing.databaseOf(accounts);
  const client: PeerTls = { ca: backing.ca, ...backing.client };
  const entries: Entry[] = [];
  for (const reports of [false, true]) {
    const tls = reports;
    const upstream = await startByteServer(onData, tls ? { ca: backing.ca, ...backing.server } : undefined);
    stage.defer(() => upstream.close());
    const report = reports ? ['key_not_permitted', 'method_not_allowed', 'encryption_not_supported'] : [];
    const options = { core: upstream.origin, accounts: { database }, tls, timeouts, report };
    const app = await startApp(everyFeature(backing, options), faults, stage.defer);
    const operators = new Operators(app.addresses.operators?.port ?? 0, client, faults);
    stage.defer(() => operators.leave());
    entries.push({ port: app.addresses.merchants.port, tls: tls ? client : undefined, reports });
  }
  const [plain, secured] = entries as [Entry, Entry];
  return {
    entryOf: (lane) => (lane % 8 === 7 ? secured : plain),
    takeFaults: () => faults.splice(0),
    stop: () => stage.cleanUp(),
  };
}

async function startApp(file: Contents, faults: string[], defer: Defer): Promise<App> {
  const loaded = loadContents(file);
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      const line = chunk.toString();
      // A fault of the upstream may cause a 5xx status, which gives an access log line the level `error`, and a busy machine may make the
      // database late. The sidecar is not to blame for either.
      const isLate = line.includes('"code":"store_unavailable"');
      // The fuzzer's upstream sends bytes that nobody requested.
      const isUnasked = line.includes('sent unsolicited bytes');
      if (!isLate && !isUnasked && !line.endsWith('"msg":"request"}\n') && /^\{"level":"(?:error|fatal)"/.test(line))
        faults.push(line);
      done();
    },
  });
  const log = createLogger(loaded.log.level, destination);
  const app = new App(loaded, { log, clock: Date.now, version: '0.0.0', env: {}, digests: {} });
  await app.start();
  defer(() => app.stop());
  return app;
}

/** Loads a sidecar's configuration file as `serve` does. */
function loadContents(file: Contents): ConstructorParameters<typeof App>[0] {
  const folder = mkdtempSync(join(tmpdir(), 'sidecar-fuzz-'));
  try {
    const path = join(folder, 'sidecar.yaml');
    // JSON is also valid YAML.
    writeFileSync(path, JSON.stringify(file));
    const loaded = loadConfig(path, {});
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
    return loaded.config;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

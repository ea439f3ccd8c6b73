import { collectDefaultMetrics, Counter, Gauge, type Registry } from 'prom-client';
import type { Tally } from '../accounts/tally.ts';

/** The files of a configuration, as labels. */
type ConfigFile = 'sidecar' | 'accounts';

/** Gauges of prom-client whose names end in `_total`, which is reserved for counters. */
const misnamed = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'];

/** Metrics besides those of traffic: reloads, accounts, keys and credentials, the build, Node itself. */
export class OperationMetrics {
  readonly #reloads: Counter<'file' | 'outcome'>;
  readonly #lastSuccess: Gauge<'file'>;
  readonly #successful: Gauge<'file'>;

  /**
   * @param version of the sidecar
   * @param tally   called at each scrape; undefined while nothing has been counted yet
   */
  constructor(registry: Registry, version: string, tally: () => Tally | undefined) {
    const registers = [registry];
    collectDefaultMetrics({ register: registry });
    for (const name of misnamed) registry.removeSingleMetric(name);
    this.#reloads = new Counter({
      name: 'envelope_sidecar_config_reloads_total',
      help: 'Reloads of a configuration file (sidecar or accounts), by outcome: ok or failed.',
      labelNames: ['file', 'outcome'],
      registers,
    });
    this.#lastSuccess = new Gauge({
      name: 'envelope_sidecar_config_last_reload_success_timestamp_seconds',
      help: 'When the content in force of a configuration file was loaded.',
      labelNames: ['file'],
      registers,
    });
    this.#successful = new Gauge({
      name: 'envelope_sidecar_config_last_reload_successful',
      help: 'Whether the last reload of a configuration file succeeded: 1 or 0.',
      labelNames: ['file'],
      registers,
    });
    void new Gauge({
      name: 'envelope_sidecar_accounts',
      help: 'Accounts, by the environments in which they encrypt: none, test, live or both.',
      labelNames: ['encryption'],
      registers,
      // A scrape calls the metrics in their order: the first of these five sets all of them.
      collect() {
        const counted = tally();
        if (counted === undefined) return;
        for (const [encryption, count] of counted.accounts) this.set({ encryption }, count);
        for (const { count, ...labels } of counted.apiKeys) apiKeys.set(labels, count);
        nextExpiry.reset();
        for (const { count, next, ...labels } of counted.expiring) {
          expiring.set(labels, count);
          if (next !== Infinity) nextExpiry.set(labels, next / 1_000);
        }
        for (const { count, ...labels } of counted.credentials) credentials.set(labels, count);
      },
    });
    const apiKeys = new Gauge({
      name: 'envelope_sidecar_api_keys',
      help: 'Valid API keys. Rotation is due six months after a key was made.',
      labelNames: ['environment', 'kind', 'rotation'],
      registers,
    });
    const expiring = new Gauge({
      name: 'envelope_sidecar_api_keys_expiring',
      help: 'Valid API keys that expire within 30 days.',
      labelNames: ['environment', 'kind'],
      registers,
    });
    const nextExpiry = new Gauge({
      name: 'envelope_sidecar_api_keys_next_expiry_timestamp_seconds',
      help: 'When the next of the valid API keys expires. Missing if none does.',
      labelNames: ['environment', 'kind'],
      registers,
    });
    const credentials = new Gauge({
      name: 'envelope_sidecar_credentials',
      help: 'Credentials in use. Rotation is due six months after they were made.',
      labelNames: ['environment', 'rotation'],
      registers,
    });
    const build = new Gauge({
      name: 'envelope_sidecar_build_info',
      help: 'Always 1; the labels are the versions of the sidecar and of Node.',
      labelNames: ['version', 'node'],
      registers,
    });
    build.set({ version, node: process.version }, 1);
  }

  /** A file that the process started with: not a reload. @param now epoch milliseconds */
  loaded(file: ConfigFile, now: number): void {
    for (const outcome of ['ok', 'failed']) this.#reloads.inc({ file, outcome }, 0);
    this.#succeeded(file, now);
  }

  /** Counts a file whose new content is in force. @param now epoch milliseconds */
  reloaded(file: ConfigFile, now: number): void {
    this.#reloads.inc({ file, outcome: 'ok' });
    this.#succeeded(file, now);
  }

  reloadFailed(file: ConfigFile): void {
    this.#reloads.inc({ file, outcome: 'failed' });
    this.#successful.set({ file }, 0);
  }

  /** The accounts are no longer in a file. */
  removed(file: ConfigFile): void {
    this.#lastSuccess.remove({ file });
    this.#successful.remove({ file });
  }

  #succeeded(file: ConfigFile, now: number): void {
    this.#lastSuccess.set({ file }, now / 1_000);
    this.#successful.set({ file }, 1);
  }
}

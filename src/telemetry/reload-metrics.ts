import { Counter, Gauge, type Registry } from 'prom-client';
import type { EpochMs } from '../times.ts';

/** The files of a configuration, as label values. */
type ConfigFile = 'sidecar' | 'accounts';

/** Counts reloads of the configuration files. */
export class ReloadMetrics {
  readonly #reloads: Counter<'file' | 'outcome'>;
  readonly #lastSuccess: Gauge<'file'>;
  readonly #successful: Gauge<'file'>;

  constructor(registry: Registry) {
    const registers = [registry];
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
  }

  /** Records a file that was loaded at startup, which is not a reload. */
  loaded(file: ConfigFile, now: EpochMs): void {
    for (const outcome of ['ok', 'failed']) this.#reloads.inc({ file, outcome }, 0);
    this.#succeeded(file, now);
  }

  /** Counts a file whose new content has been applied. */
  reloaded(file: ConfigFile, now: EpochMs): void {
    this.#reloads.inc({ file, outcome: 'ok' });
    this.#succeeded(file, now);
  }

  reloadFailed(file: ConfigFile): void {
    this.#reloads.inc({ file, outcome: 'failed' });
    this.#successful.set({ file }, 0);
  }

  /** Called when the accounts are no longer in a file. */
  removed(file: ConfigFile): void {
    this.#lastSuccess.remove({ file });
    this.#successful.remove({ file });
  }

  #succeeded(file: ConfigFile, now: EpochMs): void {
    this.#lastSuccess.set({ file }, now / 1_000);
    this.#successful.set({ file }, 1);
  }
}

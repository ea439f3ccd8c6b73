import { Gauge, type Registry } from 'prom-client';
import type { Tally } from '../accounts/tally.ts';

/** Gauges of accounts, keys and credentials. @param tally called at each scrape; undefined while nothing has been counted yet */
export function accountMetrics(registry: Registry, tally: () => Tally | undefined): void {
  const registers = [registry];
  void new Gauge({
    name: 'envelope_sidecar_accounts',
    help: 'Accounts, by the environments in which they encrypt: none, test, live or both.',
    labelNames: ['encryption'],
    registers,
    // A scrape calls metrics in their order, so the first of these five sets all of them.
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
}

import { collectDefaultMetrics, Counter, Gauge, type Registry } from 'prom-client';
import type { EnvironmentName } from '../accounts/api-key.ts';
import { keysFor, type MasterKey } from '../accounts/master-key.ts';
import type { AccountStats } from '../accounts/account-stats.ts';
import type { EpochMs } from '../times.ts';

/** prom-client's gauges whose names end in `_total`, a suffix that is reserved for counters. */
const misnamed = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'];

/** Registers metrics of Node itself and of the build. @param version the sidecar's version */
export function processMetrics(registry: Registry, version: string): void {
  collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
  const build = new Gauge({
    name: 'envelope_sidecar_build_info',
    help: 'Always 1; the labels are the versions of the sidecar and of Node.',
    labelNames: ['version', 'node'],
    registers: [registry],
  });
  build.set({ version, node: process.version }, 1);
}

/** The limits in the configuration, and how much of each limit is used. */
export interface LimitUse {
  readonly limits: { readonly connections: number; readonly inFlight: number; readonly buffered: number };
  readonly used: LimitUse['limits'];
}

/** Registers metrics for the limits and their use. @param use called by each of the two metrics at each scrape */
export function limitMetrics(registry: Registry, use: () => LimitUse): void {
  const gauge = (name: string, help: string, which: keyof LimitUse): void => {
    void new Gauge({
      name,
      help,
      labelNames: ['limit'],
      registers: [registry],
      collect() {
        const { connections, inFlight, buffered } = use()[which];
        this.set({ limit: 'connections' }, connections);
        this.set({ limit: 'in_flight' }, inFlight);
        this.set({ limit: 'buffered' }, buffered);
      },
    });
  };
  gauge(
    'envelope_sidecar_limit',
    'Limits of the configuration: open connections, requests in flight, bytes of bodies held at once.',
    'limits',
  );
  gauge('envelope_sidecar_limit_used', 'How much of each limit is used.', 'used');
}

/** @param inFlight called at each scrape */
export function inFlightMetric(registry: Registry, inFlight: () => number): void {
  void new Gauge({
    name: 'envelope_sidecar_requests_in_flight',
    help: 'Requests whose response is not complete, and WebSocket connections.',
    registers: [registry],
    collect() {
      this.set(inFlight());
    },
  });
}

/** Registers gauges for accounts, keys and credentials. @param stats called at each scrape; returns undefined before the first count */
export function accountMetrics(registry: Registry, stats: () => AccountStats | undefined): void {
  const registers = [registry];
  void new Gauge({
    name: 'envelope_sidecar_accounts',
    help: 'Accounts, by the environments in which they encrypt: none, test, live or both.',
    labelNames: ['encryption'],
    registers,
    // A scrape collects metrics in the order in which they were registered, so the first of these five metrics sets all their values.
    collect() {
      const counted = stats();
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
    help: 'Valid API keys. Rotation is due six months after a key was created.',
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
    help: 'The earliest time at which a valid API key expires. Absent if no key expires.',
    labelNames: ['environment', 'kind'],
    registers,
  });
  const credentials = new Gauge({
    name: 'envelope_sidecar_credentials',
    help: 'Credentials in use. Rotation is due six months after they were created.',
    labelNames: ['environment', 'rotation'],
    registers,
  });
}

/** @param certificates called at each scrape; returns the certificates in use, by configuration member; times in epoch milliseconds */
export function certificateMetrics(
  registry: Registry,
  certificates: () => readonly { readonly certificate: string; readonly expiresAt: EpochMs }[],
): void {
  void new Gauge({
    name: 'envelope_sidecar_certificate_expiry_timestamp_seconds',
    help: 'When certificates of the configuration expire.',
    labelNames: ['certificate'],
    registers: [registry],
    collect() {
      // Drops certificates that were removed from the configuration.
      this.reset();
      for (const { certificate, expiresAt } of certificates()) this.set({ certificate }, expiresAt / 1_000);
    },
  });
}

/** Sets the share of stored credentials that the master key does not unwrap, from 0 to 1. */
export type SetFailingCredentials = (ratio: number) => void;

export function sealedCredentialsMetric(registry: Registry): SetFailingCredentials {
  const failing = new Gauge({
    name: 'envelope_sidecar_sealed_credentials_failing_ratio',
    help: 'Share of the encrypting accounts, in the file or in a sample from the database, whose credentials the master key does not unwrap.',
    registers: [registry],
  });
  return (ratio) => failing.set(ratio);
}

/**
 * @param inForce called at each scrape; returns the current settings
 * @param newestKeyId returns the KMS's name for the key with which the KMS wraps now; undefined if the name is not known
 */
export function masterKeysMetric(
  registry: Registry,
  inForce: () => {
    readonly environments: readonly { readonly name: EnvironmentName }[];
    readonly store: { readonly masterKeys: readonly MasterKey[] };
  },
  newestKeyId: () => string | undefined,
): void {
  void new Gauge({
    name: 'envelope_sidecar_master_keys',
    help: 'Configured master keys, by environment, by where they are, and by state: current, old or rewrap_due.',
    labelNames: ['environment', 'provider', 'state'],
    registers: [registry],
    collect() {
      this.reset();
      const { environments, store } = inForce();
      for (const { name: environment } of environments) {
        for (const [i, { wrapped }] of (keysFor(environment, store.masterKeys) ?? []).entries()) {
          const isDue = wrapped !== undefined && wrapped.key_id !== (newestKeyId() || wrapped.key_id);
          const state = isDue ? 'rewrap_due' : i === 0 ? 'current' : 'old';
          this.inc({ environment, provider: wrapped === undefined ? 'clear' : 'kms', state });
        }
      }
    },
  });
}

/** Why the operators' API refuses a request. `no_token`: the request has neither a token nor an open session. */
const operatorRefusals = ['no_token', 'unknown_token', 'forbidden', 'unknown_host'] as const;

export type OperatorRefusal = (typeof operatorRefusals)[number];

/** Counts requests to the operators' API. */
export interface OperatorsMetrics {
  /** @param operation the name of the operation in the API, or `none` */
  request(operation: string, status: number): void;
  refused(reason: OperatorRefusal): void;
}

export function operatorsMetrics(registry: Registry): OperatorsMetrics {
  const requests = new Counter({
    name: 'envelope_sidecar_operators_requests_total',
    help: "Requests to the operators' API, by operation and status.",
    labelNames: ['operation', 'status'],
    registers: [registry],
  });
  const refusals = new Counter({
    name: 'envelope_sidecar_operator_refusals_total',
    help: "Requests to the operators' API that were refused because of their token or their host, by reason.",
    labelNames: ['reason'],
    registers: [registry],
  });
  // All reasons are exposed from startup on, because `increase()` needs a value from before the first refusal.
  for (const reason of operatorRefusals) refusals.inc({ reason }, 0);
  return {
    request: (operation, status) => requests.inc({ operation, status }),
    refused: (reason) => refusals.inc({ reason }),
  };
}

import { pods, quantiles, rate, type Row } from './panel.ts';

/** The process, its configuration, its store and the operators' API. */
export const operationRows: readonly Row[] = [
  {
    title: 'Saturation',
    panels: [
      {
        kind: 'timeseries',
        title: 'Use of the limits',
        description:
          'Of open connections, requests in flight and bytes of bodies held at once. At 100 % more are refused.',
        unit: 'percentunit',
        queries: [
          [
            '{{pod}} {{limit}}',
            `max by (pod, limit) (envelope_sidecar_limit_used{${pods}} / envelope_sidecar_limit{${pods}})`,
          ],
        ],
      },
      {
        kind: 'timeseries',
        title: 'In flight',
        description: 'Requests whose response is not complete. At limits.inFlight more are refused.',
        unit: 'none',
        queries: [['{{pod}}', `max by (pod) (envelope_sidecar_requests_in_flight{${pods}})`]],
      },
      {
        kind: 'timeseries',
        title: 'CPU',
        description: 'Cores in use. One process uses little more than one.',
        unit: 'none',
        queries: [
          ['{{pod}}', `sum by (pod) (${ofProcess(`rate(process_cpu_seconds_total{${pods}}[$__rate_interval])`)})`],
        ],
      },
      {
        kind: 'timeseries',
        title: 'Event loop lag, p99',
        description: 'How late the process runs its work. Above 10 ms it has too much.',
        unit: 's',
        queries: [['{{pod}}', `max by (pod) (${ofProcess(`nodejs_eventloop_lag_p99_seconds{${pods}}`)})`]],
      },
    ],
  },
  {
    title: 'Operation',
    panels: [
      {
        kind: 'timeseries',
        title: 'Reloads of the configuration',
        description: 'After a failed one the sidecar runs on the configuration before it.',
        unit: 'none',
        queries: [
          [
            '{{pod}} {{file}} {{outcome}}',
            `sum by (pod, file, outcome) (increase(envelope_sidecar_config_reloads_total{${pods}}[$__rate_interval]))`,
          ],
        ],
      },
      {
        kind: 'timeseries',
        title: 'Age of the configuration',
        description:
          'Since the one in force was loaded. If pods differ for long, one of them has not applied the last change.',
        unit: 's',
        queries: [
          [
            '{{pod}} {{file}}',
            `time() - max by (pod, file) (envelope_sidecar_config_last_reload_success_timestamp_seconds{${pods}})`,
          ],
        ],
      },
      {
        kind: 'timeseries',
        title: 'Memory',
        description:
          'Resident memory of the process. Some 50 MB of it are pages of the program’s own file, which are not counted as the container’s.',
        unit: 'bytes',
        queries: [['{{pod}}', `max by (pod) (${ofProcess(`process_resident_memory_bytes{${pods}}`)})`]],
      },
    ],
  },
  {
    title: 'Accounts database',
    panels: [
      {
        kind: 'timeseries',
        title: 'Connection to the database',
        description: '1: connected, and informed of changes. Empty if the accounts are in a file.',
        unit: 'none',
        queries: [['{{pod}}', `min by (pod) (envelope_sidecar_accounts_connected{${pods}})`]],
      },
      {
        kind: 'timeseries',
        title: 'Age of the accounts',
        description: 'Since the database was last heard. Beyond staleFor all keys are refused.',
        unit: 's',
        queries: [['{{pod}}', `max by (pod) (envelope_sidecar_accounts_age_seconds{${pods}})`]],
      },
      {
        kind: 'timeseries',
        title: 'Look-ups of API keys',
        description:
          'By the cache (cached, cached_unknown, stale), by the database (found, unknown), or not (unavailable).',
        unit: 'ops',
        stacked: true,
        queries: [['{{outcome}}', `sum by (outcome) (${rate('accounts_lookups_total', pods)})`]],
      },
      {
        kind: 'timeseries',
        title: 'Time of a query',
        description: 'Queries for API keys that were not in the cache, several keys in each.',
        unit: 's',
        queries: quantiles('accounts_query_duration_seconds', pods),
      },
      {
        kind: 'timeseries',
        title: 'API keys in the cache',
        description: 'Known ones, and unknown ones that were asked for.',
        unit: 'none',
        queries: [['{{pod}} {{kind}}', `max by (pod, kind) (envelope_sidecar_accounts_cached{${pods}})`]],
      },
    ],
  },
  {
    title: 'Operators’ API',
    panels: [
      {
        kind: 'timeseries',
        title: 'Operations',
        description: 'By operation. Empty without the operators’ API.',
        unit: 'reqps',
        stacked: true,
        queries: [['{{operation}}', `sum by (operation) (${rate('operators_requests_total', pods)})`]],
      },
      {
        kind: 'timeseries',
        title: 'Statuses of operations',
        description: 'Many 401: tokens are being guessed. 5xx: the store cannot be reached.',
        unit: 'reqps',
        stacked: true,
        queries: [['{{status}}', `sum by (status) (${rate('operators_requests_total', pods)})`]],
      },
    ],
  },
];

/** Selects the sidecar's series of a metric that any program may have. */
function ofProcess(expr: string): string {
  return `${expr} and on (job, instance) envelope_sidecar_build_info`;
}

/** A panel: what it shows and how it is read. */
export interface Panel {
  readonly kind: 'stat' | 'timeseries';
  readonly title: string;
  readonly description: string;
  /** Grafana's name of the unit. */
  readonly unit: string;
  /** Legend and PromQL. */
  readonly queries: readonly (readonly [legend: string, expr: string])[];
  /** A stat turns orange from this value on. */
  readonly warnFrom?: number;
  /** A stat shows its labels in place of its value. */
  readonly showsLabels?: boolean;
  /** The series add up to something. */
  readonly stacked?: boolean;
}

const pods = 'namespace=~"$namespace", pod=~"$pod"';
const traffic = `${pods}, environment=~"$environment"`;

/** Per second, over a range that holds at least four scrapes at any zoom. */
function rate(metric: string, labels = traffic, more = ''): string {
  return `rate(envelope_sidecar_${metric}{${labels}${more}}[$__rate_interval])`;
}

function quantiles(histogram: string, labels = traffic, by = ''): readonly (readonly [string, string])[] {
  return ['0.5', '0.95', '0.99'].map((quantile) => [
    `${by === '' ? '' : `{{${by}}} `}p${Number(quantile) * 100}`,
    `histogram_quantile(${quantile}, sum by (le${by === '' ? '' : `, ${by}`}) (${rate(`${histogram}_bucket`, labels)}))`,
  ]);
}

/** Mean seconds of one part of a request's time, per request: means can be subtracted, quantiles cannot. */
function perRequest(sum: string): string {
  return `(${sum}) / sum(${rate('request_duration_seconds_count', pods)})`;
}

const requestTime = `sum(${rate('request_duration_seconds_sum', pods)})`;
const upstreamTime = `sum(${rate('upstream_duration_seconds_sum', pods)})`;
const envelopeTime = `sum(${rate('envelope_duration_seconds_sum', pods)})`;

/** What the dashboard shows, from top to bottom. */
export const rows: readonly { readonly title: string; readonly panels: readonly Panel[] }[] = [
  {
    title: 'Overview',
    panels: [
      {
        kind: 'stat',
        title: 'Requests',
        description: 'Requests answered, refusals included.',
        unit: 'reqps',
        queries: [['', `sum(${rate('requests_total')})`]],
      },
      {
        kind: 'stat',
        title: 'Answered with 5xx',
        description: 'By the sidecar or by the payment core. The objective is less than 0.1 %.',
        unit: 'percentunit',
        warnFrom: 0.001,
        queries: [
          [
            '',
            `(sum(${rate('requests_total', traffic, ', status=~"5.."')}) or vector(0)) / sum(${rate('requests_total')})`,
          ],
        ],
      },
      {
        kind: 'stat',
        title: 'Time of a request, p99',
        description: 'From its head to the last byte of its response, the payment core included.',
        unit: 's',
        queries: [['', `histogram_quantile(0.99, sum by (le) (${rate('request_duration_seconds_bucket')}))`]],
      },
      {
        kind: 'stat',
        title: 'API keys due',
        description: 'Valid keys that are more than six months old.',
        unit: 'none',
        warnFrom: 1,
        queries: [['', `sum(max by (environment, kind) (envelope_sidecar_api_keys{${traffic}, rotation="due"}))`]],
      },
      {
        kind: 'stat',
        title: 'Credentials due',
        description: 'Keys and IVs in use that are more than six months old.',
        unit: 'none',
        warnFrom: 1,
        queries: [['', `sum(max by (environment) (envelope_sidecar_credentials{${traffic}, rotation="due"}))`]],
      },
      {
        kind: 'stat',
        title: 'Build',
        description: 'Versions of the sidecar and of Node that run. More than one: a rollout is under way.',
        unit: 'none',
        showsLabels: true,
        queries: [['{{version}} on Node {{node}}', `count by (version, node) (envelope_sidecar_build_info{${pods}})`]],
      },
    ],
  },
  {
    title: 'Traffic',
    panels: [
      {
        kind: 'timeseries',
        title: 'Requests by status',
        description: '499: there was no whole response, because the client left or the end of a drain broke it off.',
        unit: 'reqps',
        stacked: true,
        queries: [['{{status}}', `sum by (status) (${rate('requests_total')})`]],
      },
      {
        kind: 'timeseries',
        title: 'Requests by route',
        description:
          'Routes as they are configured; "unlisted" are all other paths, "none" was refused before routing.',
        unit: 'reqps',
        stacked: true,
        queries: [['{{route}}', `sum by (route) (${rate('requests_total')})`]],
      },
      {
        kind: 'timeseries',
        title: 'Refusals by code',
        description: 'Responses the sidecar gave itself. docs/errors.md explains each code.',
        unit: 'reqps',
        stacked: true,
        queries: [['{{code}}', `sum by (code) (${rate('refusals_total')})`]],
      },
    ],
  },
  {
    title: 'Latency',
    panels: [
      {
        kind: 'timeseries',
        title: 'Time of a request',
        description: 'From its head to the last byte of its response, the payment core included.',
        unit: 's',
        queries: quantiles('request_duration_seconds'),
      },
      {
        kind: 'timeseries',
        title: 'Time of the payment core',
        description: 'From handing the request on to the last byte of the response.',
        unit: 's',
        queries: quantiles('upstream_duration_seconds'),
      },
      {
        kind: 'timeseries',
        title: 'Time of the sidecar',
        description: 'To the head of the response, without waiting for the client and for the payment core.',
        unit: 's',
        queries: quantiles('overhead_duration_seconds'),
      },
      {
        kind: 'timeseries',
        title: 'Where the time goes, mean',
        description:
          'The parts of the mean request: the payment core, opening and sealing envelopes, and the rest of the sidecar, which ' +
          'includes waiting for the client. Over all environments.',
        unit: 's',
        stacked: true,
        queries: [
          ['payment core', perRequest(upstreamTime)],
          ['envelope', perRequest(envelopeTime)],
          ['rest of the sidecar', perRequest(`${requestTime} - ${upstreamTime} - ${envelopeTime}`)],
        ],
      },
    ],
  },
  {
    title: 'Encryption',
    panels: [
      {
        kind: 'timeseries',
        title: 'Accounts that encrypt',
        description: 'Accounts by the environments in which their encryption is enabled.',
        unit: 'none',
        stacked: true,
        queries: [['{{encryption}}', `max by (encryption) (envelope_sidecar_accounts{${pods}})`]],
      },
      {
        kind: 'timeseries',
        title: 'Envelopes',
        description: 'Opened on the way in, sealed on the way out.',
        unit: 'ops',
        queries: [['{{operation}} {{outcome}}', `sum by (operation, outcome) (${rate('envelopes_total')})`]],
      },
      {
        kind: 'timeseries',
        title: 'Accounts whose envelopes all fail',
        description: 'Of those that sent any in the last ten minutes. The log says which they are.',
        unit: 'percentunit',
        queries: [['{{environment}}', `max by (environment) (envelope_sidecar_accounts_failing_ratio{${pods}})`]],
      },
      {
        kind: 'timeseries',
        title: 'Time of an envelope',
        description: 'The work on one envelope alone. Over all environments.',
        unit: 's',
        queries: quantiles('envelope_duration_seconds', pods, 'operation'),
      },
    ],
  },
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
        description: 'How late the process gets to its work. Above some milliseconds it has too much of it.',
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
        description: 'After a failed one the sidecar runs on what was valid before.',
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
          'Since the running one was loaded. Pods that differ for long have not all taken in the last change.',
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
];

/** Of a metric that any program may have, only the sidecar's own. */
function ofProcess(expr: string): string {
  return `${expr} and on (job, instance) envelope_sidecar_build_info`;
}

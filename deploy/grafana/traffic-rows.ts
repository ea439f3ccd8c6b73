import { pods, quantiles, rate, traffic, type Row } from './panel.ts';

/** Mean seconds of one part of a request's time, per request: means can be subtracted, quantiles cannot. */
function perRequest(sum: string): string {
  return `(${sum}) / sum(${rate('request_duration_seconds_count', pods)})`;
}

const requestTime = `sum(${rate('request_duration_seconds_sum', pods)})`;
const upstreamTime = `sum(${rate('upstream_duration_seconds_sum', pods)})`;
const envelopeTime = `sum(${rate('envelope_duration_seconds_sum', pods)})`;

/** Merchants' traffic, envelopes, keys and certificates. */
export const trafficRows: readonly Row[] = [
  {
    title: 'Overview',
    panels: [
      {
        kind: 'stat',
        title: 'Requests',
        description: 'Requests per second, refusals included.',
        unit: 'reqps',
        queries: [['', `sum(${rate('requests_total')})`]],
      },
      {
        kind: 'stat',
        title: 'Share of 5xx',
        description: 'Responses of the sidecar or of the payment core. The objective is less than 0.1 %.',
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
        title: 'API keys expiring',
        description: 'Valid keys that expire within 30 days.',
        unit: 'none',
        warnFrom: 1,
        queries: [['', `sum(max by (environment, kind) (envelope_sidecar_api_keys_expiring{${traffic}}))`]],
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
        description: 'Error responses of the sidecar itself. docs/errors.md explains each code.',
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
        description: 'From forwarding the request to the last byte of the response.',
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
        title: 'Parts of the mean time',
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
        queries: [['{{environment}}', `max by (environment) (envelope_sidecar_accounts_failing_ratio{${traffic}})`]],
      },
      {
        kind: 'timeseries',
        title: 'Time of an envelope',
        description: 'The work on one envelope alone. Over all environments.',
        unit: 's',
        queries: quantiles('envelope_duration_seconds', pods, 'operation'),
      },
      {
        kind: 'timeseries',
        title: 'Requests during a grace',
        description:
          'By the credentials of the response. While previous or none is used, a merchant has not changed over.',
        unit: 'reqps',
        stacked: true,
        queries: [['{{credentials}}', `sum by (credentials) (${rate('grace_requests_total')})`]],
      },
      {
        kind: 'timeseries',
        title: 'Credentials that do not open',
        description:
          'Of a sample of accounts in PostgreSQL, the share whose credentials the master key does not unwrap.',
        unit: 'percentunit',
        queries: [['{{pod}}', `max by (pod) (envelope_sidecar_sealed_credentials_failing_ratio{${pods}})`]],
      },
    ],
  },
  {
    title: 'Keys and certificates',
    panels: [
      {
        kind: 'timeseries',
        title: 'Due for rotation',
        description: 'Valid API keys, and credentials in use, that are more than six months old.',
        unit: 'none',
        queries: [
          [
            '{{environment}} {{kind}} keys',
            `max by (environment, kind) (envelope_sidecar_api_keys{${traffic}, rotation="due"})`,
          ],
          [
            '{{environment}} credentials',
            `max by (environment) (envelope_sidecar_credentials{${traffic}, rotation="due"})`,
          ],
        ],
      },
      {
        kind: 'timeseries',
        title: 'Time to the next expiry of an API key',
        description: 'Its requests are refused afterwards. `keys due` lists the keys.',
        unit: 's',
        queries: [
          [
            '{{environment}} {{kind}}',
            `min by (environment, kind) (envelope_sidecar_api_keys_next_expiry_timestamp_seconds{${traffic}}) - time()`,
          ],
        ],
      },
      {
        kind: 'timeseries',
        title: 'Time to the expiry of certificates',
        description: 'Of those that the configuration names.',
        unit: 's',
        queries: [
          [
            '{{certificate}}',
            `min by (certificate) (envelope_sidecar_certificate_expiry_timestamp_seconds{${pods}}) - time()`,
          ],
        ],
      },
    ],
  },
];

import { z } from 'zod';
import { environmentNames, keyKinds, type EnvironmentName } from '../accounts/api-key.ts';
import type { MasterKey } from '../accounts/master-key.ts';
import { duration, oneOf, text, within } from '../input/value-types.ts';
import type { Values } from '../yaml/values.ts';
import { identifier, lifetime } from '../accounts/value-types.ts';
import { clientDetails, httpMethods, logLevels, operatorRoles, reportableCodes } from './choices.ts';
import { environmentSchema } from './environment-schema.ts';
import { groupSchema } from './group-schema.ts';
import { limitSettings, timeoutSettings } from './limits.ts';
import {
  address,
  auditKeys,
  baseUrl,
  certificates,
  hostName,
  masterKeys,
  network,
  operatorToken,
  operatorsTokens,
  pageUrl,
  postgresUrl,
  privateKey,
  routePath,
} from './value-types.ts';

/** The contents of the sidecar's file. Its documentation is generated from the descriptions below. */
export type SidecarFile = z.output<ReturnType<typeof sidecarSchema>>;

/** The schema of the sidecar's file. Its members are in the order in which they are documented. */
export function sidecarSchema(values: Values) {
  const { value } = values;
  const environment = environmentSchema(values);
  return z.strictObject({
    listen: listenSchema(values).describe("The merchants' listener."),
    admin: z
      .strictObject(endpoint(values, '0.0.0.0', 9090))
      .prefault({})
      .describe('The listener for health checks and metrics. It serves nothing secret.'),
    operators: operatorsSchema(values)
      .prefault({})
      .describe("The listener of the operators' API, which changes accounts."),
    environments: z
      .strictObject({
        test: environment.optional().describe('Serves keys that begin with `pk_test_` and `sk_test_`.'),
        live: environment.optional().describe('Serves keys that begin with `pk_live_` and `sk_live_`.'),
      })
      .describe('The environments that this sidecar serves: one or both.'),
    accounts: storeSchema(values).describe('The store of the accounts: a file or PostgreSQL.'),
    kms: z
      .strictObject({
        socket: value(text).describe('Path of the Unix socket that the plug-in listens on.'),
        timeout: value(within(duration, 100, 30_000, 'from 100ms to 30s'))
          .prefault('3s')
          .describe('Timeout of each call.'),
        wait: value(within(duration, 0, 240_000, 'up to 4m'))
          .prefault('45s')
          .describe('Time to wait for the plug-in at startup. Keep it shorter than the startup probe allows.'),
      })
      .optional()
      .describe(
        'A Kubernetes KMS v2 plug-in that wraps the master keys. Create the lines for `masterKey` with `master-key wrap`. ' +
          'See [A master key in a KMS](kms.md).',
      ),
    audit: z
      .strictObject({
        key: value(auditKeys)
          .optional()
          .describe('Signs the audit trail: an Ed25519 private key in PEM. See [The audit trail](audit.md#sign-it).'),
      })
      .prefault({})
      .describe("The audit trail, which is in the accounts' store."),
    keys: z
      .strictObject({
        maxAge: value(lifetime)
          .optional()
          .describe('The maximum lifetime of new API keys, and their lifetime if none is given. Default: unlimited.'),
      })
      .prefault({})
      .describe('Rules for new API keys.'),
    routes: z
      .array(routeSchema(values))
      .prefault([])
      .describe('Rules for paths. A path that is not listed accepts only secret keys, and no envelopes.'),
    cipherTest: z
      .strictObject({
        environments: z
          .array(value(oneOf(environmentNames)))
          .prefault(['test'])
          .describe(
            'The environments that serve these endpoints, even if this section is absent; `[]` turns them off.',
          ),
      })
      .prefault({})
      .describe(
        'The test endpoints `POST /api/s2s/aes-encrypt` and `/api/s2s/aes-decrypt`. They take the key in a header, and ' +
          'gateways log headers, so leave `live` out.',
      ),
    trustedProxies: z
      .array(value(network))
      .prefault([])
      .describe(
        "Proxies in front of the sidecar whose `X-Forwarded-*` headers are trusted in merchants' requests. List every proxy between clients and the sidecar. The client is the last address in `X-Forwarded-For` that is not one of these proxies.",
      ),
    limits: groupSchema(limitSettings, values)
      .prefault({})
      .describe('Limits for each client, and for all clients together.'),
    timeouts: groupSchema(timeoutSettings, values).prefault({}).describe('How long the sidecar waits.'),
    report: z
      .array(value(oneOf(reportableCodes)))
      .prefault([])
      .describe(
        'Refusals that are only logged and counted, not enforced, while routes are being introduced. ' +
          'See [Introducing routes](#introducing-routes).',
      ),
    tracing: z
      .strictObject({
        otlp: value(baseUrl).describe(
          'Base URL of the OpenTelemetry receiver (OTLP over HTTP). Traces are posted to `<otlp>/v1/traces`.',
        ),
        sample: z
          .number({ error: ({ code }) => (code === 'invalid_type' ? 'expected a number from 0 to 1' : undefined) })
          .min(0)
          .max(1)
          .default(0.01)
          .describe('Share of requests that are traced, from 0 to 1.'),
      })
      .optional()
      .describe('Traces. Off by default.'),
    documentation: value(pageUrl)
      .optional()
      .describe(
        'URL at which you publish docs/errors.md. The `type` of a problem is then `<documentation>#<code>`. Problems from the ' +
          "operators' API link to the page `accounts` in the same folder. Default: the `type` is `about:blank`.",
      ),
    log: z
      .strictObject({
        level: value(oneOf(logLevels))
          .prefault('info')
          .describe('The minimum level to log. Access lines, and `audit` lines with their anchors, need `info`.'),
        client: value(oneOf(clientDetails))
          .prefault('truncated')
          .describe(
            "The client's address on access lines: `none`, its network (`truncated`: a /24 of IPv4, a /48 of IPv6), or " +
              '`full`. Behind proxies, also set `trustedProxies`.',
          ),
      })
      .prefault({})
      .describe('Logs, as JSON lines on standard output.'),
  });
}

/** The members that all listeners have in common, which say where to listen. */
function endpoint({ value }: Values, host: string, port: number, note = '') {
  return {
    host: value(address).prefault(host).describe(`Address to listen on.${note}`),
    port: z
      .int()
      .min(0)
      .max(65_535)
      .meta({ title: 'port' })
      .default(port)
      .describe('Port to listen on; 0 means any free port.'),
  };
}

function tlsSchema({ pem }: Values) {
  return z.strictObject({
    cert: pem(certificates).describe('Certificate of the listener, followed by its intermediates.'),
    key: pem(privateKey).describe('Private key of the certificate.'),
    clientCa: pem(certificates)
      .optional()
      .describe('If set, a client must present a certificate signed by one of these CAs.'),
  });
}

function listenSchema(values: Values) {
  return z.strictObject({
    ...endpoint(values, '0.0.0.0', 8080),
    tls: tlsSchema(values).optional().describe('Makes the listener accept only TLS.'),
  });
}

function operatorsSchema(values: Values) {
  const { value } = values;
  const operator = z.strictObject({
    name: value(identifier).describe('Name in logs and in the audit trail.'),
    role: value(oneOf(operatorRoles))
      .prefault('admin')
      .describe(
        '`viewer` reads; `operator` also adds and renames accounts and changes keys and encryption; `admin`, the default, may do everything; `core` may only seal webhooks.',
      ),
    account: value(identifier)
      .optional()
      .describe('The only account that the operator may see and change. Default: all.'),
    environment: value(oneOf(environmentNames))
      .optional()
      .describe('The only environment that a token with the role `core` may seal for. Default: both.'),
    token: value(operatorToken).describe('The bearer token that the operator sends.'),
  });
  return z.strictObject({
    ...endpoint(values, '127.0.0.1', 9091, ' An address other than loopback requires `tls`.'),
    token: value(operatorsTokens)
      .optional()
      .describe(
        'Bearer tokens of operators with all rights, one per line, alone or as `name: token`. Without `token` and `tokens` ' +
          'the API is off.',
      ),
    tokens: z
      .array(operator)
      .min(1)
      .optional()
      .describe('Operators, each with a name, a role and a token. Set either this or `token`.'),
    hosts: z
      .array(value(hostName))
      .prefault([])
      .describe('Host names that the listener accepts, in addition to IP addresses and `localhost`.'),
    console: z.boolean().default(true).describe('Whether the console is served at `/console/`.'),
    tls: tlsSchema(values).optional().describe('Makes the listener accept only TLS.'),
  });
}

/** The schema of master keys. In the short form, the keys are for both environments. */
function masterKeySchema({ value }: Values) {
  const forms = z.union(
    [
      value(masterKeys, true),
      z.strictObject({
        test: value(masterKeys).optional().describe('For credentials in test.'),
        live: value(masterKeys).optional().describe('For credentials in live.'),
      }),
    ],
    { error: `expected ${masterKeys.expected}; or members "test" and "live"` },
  );
  return forms.transform((written): readonly MasterKey[] => {
    if (!('test' in written) && !('live' in written)) return Array.isArray(written) ? written : [];
    const restricted = (key: MasterKey, environment: EnvironmentName): MasterKey => ({ ...key, environment });
    return environmentNames.flatMap((name) => (written[name] ?? []).map((key) => restricted(key, name)));
  });
}

function storeSchema(values: Values) {
  const { value } = values;
  return z.strictObject({
    file: value(text).optional().describe('Path of the accounts file. Set either this or `postgres`.'),
    masterKey: masterKeySchema(values)
      .optional()
      .describe(
        'Wraps credentials before they are stored in the file: 32 bytes in base64 or hex. One key per line: the first ' +
          'key wraps, and all keys unwrap. Or `{ test: …, live: … }`, with keys for each environment; a sidecar needs the keys of the ' +
          'environments that it serves. Default: the environment variable `SIDECAR_MASTER_KEY`, if it is set.',
      ),
    postgres: z
      .strictObject({
        url: value(postgresUrl).describe(
          'The database: `postgres://user:password@host:port/name`, TLS with `?sslmode=verify-full`.',
        ),
        masterKey: masterKeySchema(values)
          .optional()
          .describe('Like `accounts.masterKey`. Required, here or as `SIDECAR_MASTER_KEY`.'),
        cache: z
          .int()
          .min(1)
          .max(10_000_000)
          .default(10_000)
          .describe('Maximum number of API keys held in memory, 2 to 3 KB each, plus as many unknown keys.'),
        staleFor: value(within(duration, 0, 7 * 86_400_000, 'up to 7d'))
          .prefault('15m')
          .describe(
            'How long cached API keys keep working while the database cannot be reached. Other keys are refused as ' +
              '`accounts_unavailable`.',
          ),
      })
      .optional()
      .describe('Accounts in PostgreSQL, for several sidecars or many accounts.'),
  });
}

function routeSchema({ value }: Values) {
  return z.strictObject({
    path: value(routePath).describe('Paths that the route applies to; see [Routes](#matching-of-routes).'),
    methods: z
      .array(value(oneOf(httpMethods)))
      .min(1)
      // An empty list, which a file may not contain, means all methods.
      .default([])
      .describe('Methods of the route; `GET` includes `HEAD`. Default: all.'),
    keys: z
      .array(value(oneOf(keyKinds)))
      .min(1)
      .prefault(['secret'])
      .describe('Kinds of API keys that may use the route. Secret keys always may.'),
    envelope: z
      .boolean()
      .default(false)
      .describe('Opens requests and seals responses, for accounts whose encryption is enabled.'),
    upgrade: z.boolean().default(false).describe('Allows WebSocket connections. Not with `envelope`.'),
  });
}

import type { KeyObject } from 'node:crypto';
import type { EnvironmentName, KeyKind } from '../accounts/api-key.ts';
import type { Account } from '../accounts/account.ts';
import type { PostgresSettings } from '../accounts/postgres/accounts.ts';
import type { RefusalCode } from '../errors.ts';

/** A validated configuration: what every other part relies on. */
export interface Config extends Settings {
  /** The accounts of the file; none if they are in a database. */
  readonly accounts: readonly Account[];
}

/** What the sidecar's file says, and the files it names but the accounts. Durations are milliseconds, sizes bytes. */
export interface Settings {
  readonly listen: Listener & { readonly tls: ServerTls | undefined };
  readonly admin: Listener;
  /** Undefined: the operators' API is off. */
  readonly operators: OperatorsListener | undefined;
  /** One or two; test comes first. */
  readonly environments: readonly Environment[];
  /** Where the accounts are kept and changed. */
  readonly store: StoreSettings;
  readonly routes: readonly Route[];
  /** Where the two test endpoints are served. */
  readonly cipherTest: readonly EnvironmentName[];
  /** CIDRs or addresses whose `X-Forwarded-*` is believed. */
  readonly trustedProxies: readonly string[];
  readonly limits: Limits;
  readonly timeouts: Timeouts;
  /** Refusals that are counted and logged, but not enforced. */
  readonly report: readonly ReportableCode[];
  /** Undefined: no traces are made. */
  readonly tracing: Tracing | undefined;
  /** Address of the page that explains the refusals: what the `type` of a problem begins with. Undefined: `type` is relative. */
  readonly documentation: string | undefined;
  readonly log: { readonly level: LogLevel };
}

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

export interface Listener {
  readonly host: string;
  readonly port: number;
}

/** Loopback only, or with TLS. */
export interface OperatorsListener extends Listener {
  /** At least one. */
  readonly tokens: readonly OperatorsToken[];
  /** Names the listener answers to besides IP addresses and `localhost`: lower case, without port. */
  readonly hosts: readonly string[];
  /** Whether the console is served. */
  readonly console: boolean;
  readonly tls: ServerTls | undefined;
}

export const operatorRoles = ['viewer', 'operator', 'admin'] as const;
export type OperatorRole = (typeof operatorRoles)[number];

/** What an operator authenticates with. Only the token's hash is kept. */
export interface OperatorsToken {
  /** The operator's name in logs and in the audit trail. */
  readonly name: string;
  readonly role: OperatorRole;
  /** The id of the only account that the operator may see and change. Undefined: all accounts. */
  readonly account: string | undefined;
  /** Lower-case hex SHA-256. */
  readonly hash: string;
}

/** Where accounts are kept, and the master keys their credentials are sealed with: the first seals, each opens. */
export type StoreSettings = FileStoreSettings | ({ readonly kind: 'postgres' } & PostgresSettings);

interface FileStoreSettings {
  readonly kind: 'file';
  /** Absolute. */
  readonly file: string;
  /** Empty: credentials stand in the file in the clear. */
  readonly masterKeys: readonly KeyObject[];
}

/** PEM texts, not paths. */
export interface ServerTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | undefined;
}

export interface Environment {
  readonly name: EnvironmentName;
  /** Lower case, without port. Empty: answers for every host (only where there is one environment). */
  readonly hosts: readonly string[];
  readonly upstream: UpstreamTarget;
}

export interface UpstreamTarget {
  /** `http://host:port` or `https://host:port`, without path; for a Unix socket `http://localhost`. */
  readonly origin: string;
  /** The socket's path where the upstream is `unix:/path.sock`. */
  readonly socketPath: string | undefined;
  /** PEM texts; only for https. */
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
  /** Whether the client's `Authorization` header is forwarded. */
  readonly forwardsAuthorization: boolean;
}

export const httpMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;
export type HttpMethod = (typeof httpMethods)[number];

export interface Route {
  /** As configured: literals, `:param`, a trailing `/*`. The metric label too. */
  readonly path: string;
  /** Empty: all methods. */
  readonly methods: readonly HttpMethod[];
  readonly keys: readonly KeyKind[];
  readonly envelope: boolean;
  readonly upgrade: boolean;
}

/** The refusals that can be reported in place of being enforced, while routes are being introduced. */
export const reportableCodes = [
  'key_not_permitted',
  'method_not_allowed',
  'encryption_not_supported',
] as const satisfies readonly RefusalCode[];
export type ReportableCode = (typeof reportableCodes)[number];

export interface Tracing {
  /** Base URL of the OTLP/HTTP receiver, without a slash at its end: traces are posted to `<otlp>/v1/traces`. */
  readonly otlp: string;
  /** Share of the requests that are traced, from 0 to 1. */
  readonly sample: number;
}

export interface Limits {
  readonly requestBody: number;
  readonly buffered: number;
  /** Bytes of a request's head. */
  readonly header: number;
  /** Header fields of a request. */
  readonly headers: number;
  /** Open client connections. */
  readonly connections: number;
  readonly inFlight: number;
  readonly failedKeys: { readonly attempts: number; readonly window: number };
}

export interface Timeouts {
  readonly connect: number;
  readonly header: number;
  readonly request: number;
  readonly upstream: number;
  readonly idle: number;
  readonly drain: number;
}

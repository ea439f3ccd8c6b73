import type { KeyObject } from 'node:crypto';
import type { Account } from '../accounts/account.ts';
import type { EnvironmentName } from '../accounts/api-key.ts';
import type { MasterKey } from '../accounts/master-key.ts';
import type { PostgresSettings } from '../accounts/postgres/accounts.ts';
import type { SidecarFile } from './schema.ts';
import type { Sources } from './sources.ts';

/** The content of `sidecar.yaml`: `schema.ts` describes its members. Durations are in milliseconds, sizes in bytes. */
type File = Immutable<SidecarFile>;
type Immutable<T> = { readonly [Member in keyof T]: Immutable<T[Member]> };

/** The configuration that the running sidecar relies on. */
export interface Config extends Settings {
  /** The accounts of the file; empty if they are in a database. */
  readonly accounts: readonly Account[];
}

/** `sidecar.yaml` and the files it names, except the accounts. */
export interface Settings extends Omit<File, 'accounts' | 'audit' | 'environments' | 'keys' | 'kms' | 'operators'> {
  /** Where the accounts are stored. */
  readonly store: StoreSettings;
  /** One or two; test comes first. */
  readonly environments: readonly Environment[];
  /** Undefined: the operators' API is off. */
  readonly operators?: OperatorsListener | undefined;
  /** Undefined: the lines of master keys are the keys themselves. */
  readonly kms?: KmsSettings | undefined;
  /** The sources of the values. A member without a source has its default. */
  readonly sources: Sources;
}

export type Listener = File['admin'];
/** In PEM, not as paths. */
export type ServerTls = NonNullable<File['listen']['tls']>;
export type Limits = File['limits'];
export type Timeouts = File['timeouts'];
/** Its socket is an absolute path. */
export type KmsSettings = NonNullable<File['kms']>;
export type ReportableCode = File['report'][number];
/** Its `path` is also the metric label. Empty `methods`: all. */
export type Route = File['routes'][number];
export type HttpMethod = Route['methods'][number];

/** Listens on loopback, or with TLS. */
export interface OperatorsListener extends Omit<File['operators'], 'token' | 'tokens'> {
  /** At least one. */
  readonly tokens: NonNullable<File['operators']['token']>;
}
export type OperatorsToken = OperatorsListener['tokens'][number];
/** What access lines contain of a client's address. */
export type ClientDetail = File['log']['client'];
export type OperatorRole = OperatorsToken['role'];

type FileEnvironment = NonNullable<File['environments'][EnvironmentName]>;
export interface Environment extends FileEnvironment {
  readonly name: EnvironmentName;
  /** Lower case, without port. Empty: every host, which is allowed for a sole environment only. */
  readonly hosts: readonly string[];
}
export type UpstreamTarget = FileEnvironment['upstream'];

/** Where accounts are stored, and the master keys of their credentials: the first wraps, all unwrap. */
export type StoreSettings = FileStoreSettings | ({ readonly type: 'postgres' } & PostgresSettings);

interface FileStoreSettings {
  readonly type: 'file';
  /** Absolute. */
  readonly file: string;
  /** Empty: the file holds credentials in the clear. */
  readonly masterKeys: readonly MasterKey[];
  /** Maximum lifetime of a new key, in milliseconds. Undefined: any. */
  readonly maxKeyAge?: number | undefined;
  /** Sign the audit trail: the first signs, the others signed before it. Empty: it is not signed. */
  readonly auditKeys: readonly KeyObject[];
}

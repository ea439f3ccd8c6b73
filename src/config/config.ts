import type { KeyObject } from 'node:crypto';
import type { Account } from '../accounts/account.ts';
import type { EnvironmentName } from '../accounts/api-key.ts';
import type { MasterKey } from '../accounts/master-key.ts';
import type { PostgresSettings } from '../accounts/postgres/accounts.ts';
import type { SidecarFile } from './schema.ts';
import type { Sources } from './sources.ts';

/** The content of `sidecar.yaml`, whose members `schema.ts` describes. Durations are in milliseconds, sizes in bytes. */
type File = Immutable<SidecarFile>;
type Immutable<T> = { readonly [Member in keyof T]: Immutable<T[Member]> };

/** The configuration of a running sidecar. */
export interface Config extends Settings {
  /** The accounts in the accounts file; empty if they are in a database. */
  readonly accounts: readonly Account[];
}

/** `sidecar.yaml` and the files it names, except the accounts. */
export interface Settings extends Omit<File, 'accounts' | 'audit' | 'environments' | 'keys' | 'kms' | 'operators'> {
  /** Where the accounts are stored. */
  readonly store: StoreSettings;
  /** One or two environments. If there are two, `test` comes first. */
  readonly environments: readonly Environment[];
  /** Undefined if the operators' API is off. */
  readonly operators?: OperatorsListener | undefined;
  /** Undefined if there is no KMS. In that case, each line with a master key is the key itself. */
  readonly kms?: KmsSettings | undefined;
  /** The sources of the values. A member without a source has its default. */
  readonly sources: Sources;
}

export type Listener = File['admin'];
/** Certificates and keys are PEM text, not paths. */
export type ServerTls = NonNullable<File['listen']['tls']>;
export type Limits = File['limits'];
export type Timeouts = File['timeouts'];
/** `socket` is an absolute path. */
export type KmsSettings = NonNullable<File['kms']>;
export type ReportableCode = File['report'][number];
/** `path` is also the metric label. If `methods` is empty, all methods are allowed. */
export type Route = File['routes'][number];
export type HttpMethod = Route['methods'][number];

/** The operators' listener, which is on loopback or uses TLS. */
export interface OperatorsListener extends Omit<File['operators'], 'token' | 'tokens'> {
  /** At least one token. */
  readonly tokens: NonNullable<File['operators']['token']>;
}
export type OperatorsToken = OperatorsListener['tokens'][number];
/** How much of a client's address access lines contain. */
export type ClientDetail = File['log']['client'];
export type OperatorRole = OperatorsToken['role'];

type FileEnvironment = NonNullable<File['environments'][EnvironmentName]>;
export interface Environment extends FileEnvironment {
  readonly name: EnvironmentName;
  /** Lower case, without a port. If empty, the environment serves every host; this is allowed only if it is the only environment. */
  readonly hosts: readonly string[];
}
export type UpstreamTarget = FileEnvironment['upstream'];

/** Where accounts are stored, and the master keys of their credentials. The first master key wraps; all master keys unwrap. */
export type StoreSettings = FileStoreSettings | ({ readonly type: 'postgres' } & PostgresSettings);

interface FileStoreSettings {
  readonly type: 'file';
  /** An absolute path. */
  readonly file: string;
  /** If empty, the file contains credentials in the clear. */
  readonly masterKeys: readonly MasterKey[];
  /** Maximum lifetime of a new key, in milliseconds; undefined if there is no maximum. */
  readonly maxKeyAge?: number | undefined;
  /** The keys that sign the audit trail. The first one signs now; the others signed earlier events. If empty, the trail is not signed. */
  readonly auditKeys: readonly KeyObject[];
}

import type { z } from 'zod';
import { environmentNames } from '../accounts/api-key.ts';
import { keysFor, type MasterKey } from '../accounts/master-key.ts';
import type {
  Environment,
  Listener,
  OperatorsListener,
  Route,
  ServerTls,
  Settings,
  StoreSettings,
} from '../config/config.ts';
import { writtenSettings } from '../config/limits.ts';
import type { Sources } from '../config/sources.ts';
import { formatDuration } from '../input/value-types.ts';
import type { views } from './views.ts';

/** Shown instead of a secret. */
const placeholder = '***';

/** One member of the configuration: its name and value as in sidecar.yaml. */
interface Row {
  readonly member: string;
  /** Undefined if not set. */
  readonly value: string | undefined;
  /** Whether `value` is the placeholder. */
  readonly secret?: true;
  /** Whether a change takes effect only after a restart. */
  readonly needsRestart?: boolean;
  /** The member under which the source is recorded; by default `member`. */
  readonly writtenAt?: string;
  /** The source to show for a value that the file does not set. */
  readonly defaultSource?: string;
}

/** The running configuration without its secrets. Its rows are an allow-list, so a new member is not shown until it has a row here. */
export function viewConfiguration(settings: Settings): z.output<typeof views.Configuration> {
  const { listen, admin, operators, environments, kms, store, routes, tracing } = settings;
  const rows: Row[] = [
    ...addressRows('listen', listen),
    ...tlsRows('listen', listen.tls),
    ...addressRows('admin', admin),
    ...(operators === undefined ? [] : operatorsRows(operators, settings.sources)),
    ...environments.flatMap(environmentRows),
    ...storeRows(store),
    { member: 'kms.socket', value: kms?.socket },
    { member: 'kms.timeout', value: kms && formatDuration(kms.timeout) },
    { member: 'kms.wait', value: kms && formatDuration(kms.wait) },
    secret('audit.key', store.auditKeys.length > 0),
    { member: 'keys.maxAge', value: store.maxKeyAge === undefined ? undefined : formatDuration(store.maxKeyAge) },
    ...routes.flatMap(routeRows),
    { member: 'cipherTest.environments', value: list(settings.cipherTest.environments) },
    { member: 'trustedProxies', value: list(settings.trustedProxies) },
    ...writtenSettings(settings),
    { member: 'report', value: list(settings.report) },
    { member: 'tracing.otlp', value: tracing && otlpWithoutPath(tracing.otlp) },
    { member: 'tracing.sample', value: tracing && String(tracing.sample) },
    { member: 'documentation', value: settings.documentation },
    { member: 'log.level', value: settings.log.level },
    { member: 'log.client', value: settings.log.client },
  ];
  return { members: rows.map((row) => viewMember(row, settings.sources)) };
}

function viewMember({ member, value, secret, needsRestart, defaultSource, writtenAt = member }: Row, sources: Sources) {
  return {
    member,
    value: value ?? null,
    secret: secret === true,
    source: value === undefined ? null : (findSource(writtenAt, sources) ?? defaultSource ?? null),
    needs_restart: needsRestart === true,
  };
}

/**
 * Finds the source of a member. For a list, the source is recorded under the items; for an upstream in short form, it is recorded under the
 * upstream as a whole.
 */
function findSource(member: string, sources: Sources): string | undefined {
  return sources[member] ?? sources[`${member}[0]`] ?? sources[member.replace(/\.url$/, '')];
}

function secret(member: string, isSet = true): Row {
  return { member, value: isSet ? placeholder : undefined, secret: true };
}

function addressRows(member: string, { host, port }: Listener): Row[] {
  return [
    { member: `${member}.host`, value: host, needsRestart: true },
    { member: `${member}.port`, value: String(port), needsRestart: true },
  ];
}

/** The rows show `PEM` instead of certificates, which are not secret but too long to show. */
function tlsRows(listener: string, tls: ServerTls | undefined): Row[] {
  if (tls === undefined) return [{ member: `${listener}.tls`, value: undefined, needsRestart: true }];
  return [
    pem(`${listener}.tls.cert`, tls.cert),
    secret(`${listener}.tls.key`),
    // A different CA takes effect at once. A restart is needed to begin or to stop requiring client certificates.
    { ...pem(`${listener}.tls.clientCa`, tls.clientCa), ...(tls.clientCa === undefined && { needsRestart: true }) },
  ];
}

function pem(member: string, certificates: string | undefined): Row {
  return { member, value: certificates && 'PEM' };
}

function operatorsRows({ tokens, hosts, console, tls, ...address }: OperatorsListener, sources: Sources): Row[] {
  const isOneText = sources['operators.token'] !== undefined;
  return [
    ...addressRows('operators', address),
    ...tlsRows('operators', tls),
    ...tokens.flatMap(({ name, role, account, environment }, i): Row[] => {
      const member = `operators.tokens[${i}]`;
      const from = (name: string) => ({ writtenAt: isOneText ? 'operators.token' : `${member}.${name}` });
      return [
        { member: `${member}.name`, value: name, ...from('name') },
        { member: `${member}.role`, value: role, ...(!isOneText && from('role')) },
        { member: `${member}.account`, value: account },
        { member: `${member}.environment`, value: environment },
        { ...secret(`${member}.token`), ...from('token') },
      ];
    }),
    { member: 'operators.hosts', value: list(hosts) },
    { member: 'operators.console', value: String(console) },
  ];
}

function environmentRows({ name, hosts, upstream }: Environment): Row[] {
  const member = `environments.${name}`;
  const { origin, socketPath, ca, cert, key, forwardsAuthorization } = upstream;
  const to = `${member}.upstream`;
  return [
    { member: `${member}.hosts`, value: list(hosts) },
    { member: `${to}.url`, value: socketPath === undefined ? origin : `unix:${socketPath}` },
    pem(`${to}.ca`, ca),
    pem(`${to}.cert`, cert),
    secret(`${to}.key`, key !== undefined),
    { member: `${to}.authorization`, value: forwardsAuthorization ? 'forward' : undefined },
  ];
}

function storeRows(store: StoreSettings): Row[] {
  if (store.type === 'file') {
    return [{ member: 'accounts.file', value: store.file }, ...masterKeyRows('accounts.masterKey', store.masterKeys)];
  }
  return [
    { member: 'accounts.postgres.url', value: formatDatabase(store.url) },
    ...masterKeyRows('accounts.postgres.masterKey', store.masterKeys),
    { member: 'accounts.postgres.cache', value: String(store.cache) },
    { member: 'accounts.postgres.staleFor', value: formatDuration(store.staleFor) },
  ];
}

/**
 * One row or, if master keys are set per environment, one row for each environment. Key check values are shown, because they are not
 * secret.
 */
function masterKeyRows(member: string, keys: readonly MasterKey[]): Row[] {
  const row = (name: string, own: readonly MasterKey[]): Row => ({
    ...secret(name, own.length > 0),
    ...(own.length > 0 && { value: `${placeholder} (KCV ${own.map(({ kcv }) => kcv).join(', ')})` }),
  });
  if (keys.some(({ environment }) => environment !== undefined)) {
    return environmentNames.map((name) => row(`${member}.${name}`, keysFor(name, keys) ?? []));
  }
  return [{ ...row(member, keys), ...(keys.length > 0 && { defaultSource: 'variable SIDECAR_MASTER_KEY' }) }];
}

function routeRows({ path, methods, keys, envelope, upgrade }: Route, i: number): Row[] {
  const member = `routes[${i}]`;
  return [
    { member: `${member}.path`, value: path },
    { member: `${member}.methods`, value: list(methods) },
    { member: `${member}.keys`, value: list(keys) },
    { member: `${member}.envelope`, value: String(envelope) },
    { member: `${member}.upgrade`, value: String(upgrade) },
  ];
}

function list(items: readonly string[]): string {
  return `[${items.join(', ')}]`;
}

/**
 * The address of a database without user, password and options. The path is shown only if it is a plain name, because a password with an
 * unencoded slash would end up in the path.
 */
function formatDatabase(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return /^\/[A-Za-z0-9_.-]+$/.test(pathname) ? `${protocol}//${host}${pathname}` : `${protocol}//…`;
}

/** Omits the path, because tracing vendors put keys into paths. */
function otlpWithoutPath(url: string): string {
  const { origin, pathname } = new URL(url);
  return pathname === '/' ? origin : `${origin}/…`;
}

import { X509Certificate, createPrivateKey } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { environmentNames } from '../accounts/api-key.ts';
import { keysFor, getPlace, type MasterKey } from '../accounts/master-key.ts';
import { isLoopback } from '../http.ts';
import { formatPath, type MemberPath } from '../input/member-path.ts';
import type { Partly } from '../input/validate.ts';
import { tls as nodeTls } from '../tls.ts';
import type { YamlFile } from '../yaml/yaml-file.ts';
import { httpMethods } from './choices.ts';
import type { HttpMethod, StoreSettings } from './config.ts';
import type { SidecarFile } from './schema.ts';

type Content = Partly<SidecarFile>;

/** Reports members that are valid on their own but contradict each other. */
export function crossCheck(file: YamlFile, content: Content): void {
  checkListeners(file, content);
  checkEnvironments(file, content.environments);
  checkAccounts(file, content.accounts);
  checkMasterKeys(file, content);
  checkRoutes(file, content.routes ?? []);
  checkLimits(file, content);
}

function checkListeners(file: YamlFile, { listen, admin, operators }: Content): void {
  checkCertificate(file, listen?.tls, ['listen', 'tls']);
  checkCertificate(file, operators?.tls, ['operators', 'tls']);
  differentPorts(file, 'admin', admin, [['listen', listen]]);
  checkOperators(file, operators);
  if (operators?.token === undefined && operators?.tokens === undefined) return;
  differentPorts(file, 'operators', operators, [
    ['listen', listen],
    ['admin', admin],
  ]);
  if (operators.tls === undefined && operators.host !== undefined && !isLoopback(operators.host)) {
    file.report(['operators', 'tls'], 'missing: keys and credentials would leave this machine in the clear');
  }
}

/** Checks that tokens and names are unique, because each identifies one operator. */
function checkOperators(file: YamlFile, operators: Content['operators']): void {
  if (operators?.tokens === undefined) return;
  if (operators.token !== undefined)
    file.report(['operators', 'tokens'], 'cannot be combined with "token": remove one of them');
  for (const [i, operator] of operators.tokens.entries()) {
    if (operator?.environment === undefined || operator.role === undefined || operator.role === 'core') continue;
    file.report(['operators', 'tokens', i, 'environment'], 'allowed only with the role "core"');
  }
  for (const member of ['name', 'token'] as const) {
    const seen = new Map<string, number>();
    for (const [i, operator] of operators.tokens.entries()) {
      const value = operator?.[member];
      if (value === undefined) continue;
      const first = seen.get(value);
      if (first === undefined) seen.set(value, i);
      else
        file.report(['operators', 'tokens', i, member], `the same ${member} as operators.tokens[${first}].${member}`);
    }
  }
}

type Address = { host?: string | undefined; port?: number | undefined } | undefined;

function differentPorts(file: YamlFile, name: string, own: Address, others: readonly [string, Address][]): void {
  const isEverywhere = (host: string | undefined): boolean => host === '0.0.0.0' || host === '::';
  for (const [other, { host, port } = {}] of others) {
    if (port === undefined || port === 0 || port !== own?.port) continue;
    if (host === own.host || isEverywhere(host) || isEverywhere(own.host)) {
      file.report([name, 'port'], `the same port as ${other}.port: expected a different port`);
    }
  }
}

function checkCertificate(
  file: YamlFile,
  tls: { cert?: string | undefined; key?: string | undefined } = {},
  path: MemberPath,
): void {
  if (tls.cert === undefined || tls.key === undefined) return;
  if (!new X509Certificate(tls.cert).checkPrivateKey(createPrivateKey(tls.key))) {
    file.report([...path, 'key'], 'does not belong to the certificate in "cert"');
    return;
  }
  try {
    nodeTls().createSecureContext({ cert: tls.cert, key: tls.key });
  } catch (error) {
    // A certificate may parse and still be too weak for a listener. Without this check, nobody would notice until it is used.
    file.report([...path, 'cert'], `OpenSSL rejects it: ${(error as { reason?: string }).reason ?? 'unusable'}`);
  }
}

function checkEnvironments(file: YamlFile, environments: Content['environments']): void {
  if (environments === undefined) return;
  const served = environmentNames.filter(
    (name) => environments[name] !== undefined || file.isWrong(['environments', name]),
  );
  if (served.length === 0) file.report(['environments'], 'expected test, live or both');

  const seen = new Map<string, { name: string; path: MemberPath }>();
  for (const name of served) {
    const path = ['environments', name];
    const environment = environments[name];
    if (served.length > 1 && environment !== undefined && environment.hosts === undefined) {
      file.report([...path, 'hosts'], 'missing: with two environments, the host selects the environment');
    }
    for (const [i, host] of (environment?.hosts ?? []).entries()) {
      const first = host === undefined ? undefined : seen.get(host);
      if (first !== undefined && first.name !== name) {
        file.report([...path, 'hosts', i], `the same host as ${formatPath(first.path)}`);
      } else if (host !== undefined) {
        seen.set(host, { name, path: [...path, 'hosts', i] });
      }
    }
    checkUpstream(file, environment?.upstream, [...path, 'upstream']);
  }
}

type Upstream = NonNullable<NonNullable<Content['environments']>['test']>['upstream'];

function checkUpstream(file: YamlFile, upstream: Upstream, path: MemberPath): void {
  if (upstream === undefined) return;
  for (const member of ['ca', 'cert', 'key'] as const) {
    if (upstream[member] !== undefined && upstream.origin?.startsWith('https:') === false) {
      file.report([...path, member], 'allowed only for an upstream with https://');
    }
  }
  if (upstream.cert === undefined && upstream.key !== undefined) {
    file.report([...path, 'cert'], 'missing: "key" needs its certificate');
  }
  if (upstream.key === undefined && upstream.cert !== undefined) {
    file.report([...path, 'key'], 'missing: "cert" needs its private key');
  }
  checkCertificate(file, upstream, path);
}

function checkAccounts(file: YamlFile, accounts: Content['accounts']): void {
  if (accounts === undefined) return;
  const inFile = accounts.file !== undefined || file.isWrong(['accounts', 'file']);
  const inDatabase = accounts.postgres !== undefined || file.isWrong(['accounts', 'postgres']);
  if (!inFile && !inDatabase) file.report(['accounts'], 'expected "file" or "postgres"');
  if (inFile && inDatabase) file.report(['accounts', 'postgres'], 'cannot be combined with "file": remove one of them');
  if (inDatabase && !inFile && accounts.masterKey !== undefined) {
    file.report(['accounts', 'masterKey'], 'move it into "postgres"');
  }
}

/** If master keys are set per environment, each environment that is served needs its own, and no key may be set for both. */
function checkMasterKeys(file: YamlFile, { accounts, environments }: Content): void {
  const inDatabase = accounts?.postgres !== undefined;
  const path = masterKeyPath(inDatabase ? 'postgres' : 'file');
  const keys = (inDatabase ? accounts.postgres : accounts)?.masterKey as readonly MasterKey[] | undefined;
  if (keys === undefined || file.isWrongWithin(path)) return;
  if (keys.length === 0) file.report(path, 'expected "test", "live" or both');
  for (const name of environmentNames) {
    if (environments?.[name] === undefined || keysFor(name, keys) !== undefined) continue;
    file.report([...path, name], `missing: this sidecar serves ${name}`);
  }
  const forTest = new Set(keys.filter(({ environment }) => environment === 'test').map(({ kcv }) => kcv));
  if (keys.some(({ environment, kcv }) => environment === 'live' && forTest.has(kcv))) {
    file.report([...path, 'live'], 'the same key as in "test": each environment needs its own');
  }
}

export function masterKeyPath(store: StoreSettings['type'] | undefined): MemberPath {
  return store === 'postgres' ? ['accounts', 'postgres', 'masterKey'] : ['accounts', 'masterKey'];
}

/**
 * Fills in `key` for wrapped master keys that are known. There is no fallback: with a KMS, every line must be wrapped; without a KMS, no
 * line may be wrapped.
 *
 * @param known keys that were unwrapped before, or that have a problem because they could not be unwrapped
 */
export function openedLines(
  file: YamlFile,
  path: MemberPath,
  keys: readonly MasterKey[],
  hasKms: boolean,
  known: readonly MasterKey[],
): readonly MasterKey[] {
  return keys.map((own) => {
    const at = own.environment === undefined ? path : [...path, own.environment];
    const line = `line ${getPlace(own, keys)}`;
    const { wrapped } = own;
    if (hasKms && wrapped === undefined) {
      file.report(at, `${line} is a master key in the clear: with "kms", wrap it with "master-key wrap"`);
    } else if (!hasKms && wrapped !== undefined) {
      file.report(at, `${line} is wrapped by a KMS: set "kms"`);
    }
    const same = known.find((each) => wrapped !== undefined && isDeepStrictEqual(each.wrapped, wrapped));
    if (same?.problem !== undefined) file.report(at, same.problem);
    return same === undefined ? own : { ...own, key: same.key };
  });
}

function checkRoutes(file: YamlFile, routes: NonNullable<Content['routes']>): void {
  const seen: { key: string; methods: ReadonlySet<HttpMethod>; path: MemberPath }[] = [];
  for (const [i, route] of routes.entries()) {
    const methods = collectMethods(route?.methods);
    if (route?.upgrade && route.envelope) {
      file.report(['routes', i, 'upgrade'], 'cannot be combined with "envelope": WebSocket messages are not sealed');
    }
    if (route?.upgrade && methods !== undefined && !methods.has('GET')) {
      file.report(['routes', i, 'methods'], 'expected GET: a WebSocket handshake is a GET');
    }
    if (route?.path === undefined || methods === undefined) continue;
    const key = routeKey(route.path);
    const same = seen.find((other) => other.key === key && [...methods].some((method) => other.methods.has(method)));
    if (same === undefined) seen.push({ key, methods, path: ['routes', i] });
    else file.report(['routes', i, 'path'], `the same path and method as ${formatPath(same.path)}`);
  }
}

/** The methods of a route: all if none is listed; `GET` includes `HEAD`. Undefined if every listed method is invalid. */
function collectMethods(listed: readonly (HttpMethod | undefined)[] = []): ReadonlySet<HttpMethod> | undefined {
  if (listed.length === 0) return new Set(httpMethods);
  const methods = new Set(listed.filter((method) => method !== undefined));
  if (methods.has('GET')) methods.add('HEAD');
  return methods.size === 0 ? undefined : methods;
}

/** A key for comparing paths. Paths that differ only in letter case, a trailing slash or the names of parameters have the same key. */
function routeKey(path: string): string {
  const key = path.toLowerCase().replaceAll(/:[^/]+/g, ':p');
  return key.length > 1 && key.endsWith('/') ? key.slice(0, -1) : key;
}

function checkLimits(file: YamlFile, { environments = {}, limits }: Content): void {
  if (limits?.buffered === undefined || limits.requestBody === undefined) return;
  const path = ['limits', 'buffered'];
  const times = limits.buffered / limits.requestBody;
  const served = environmentNames.filter((name) => environments[name] !== undefined).length;
  if (times < 1) file.report(path, 'expected at least as much as limits.requestBody');
  // Public keys get half of an environment's part, and clients without a key get room for at least one body.
  else if (times < 4 * served)
    file.warn(
      path,
      `below ${4 * served} × limits.requestBody, bodies sent without a secret key can use up the room that the secret keys of an environment need`,
    );
}

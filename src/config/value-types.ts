import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { isIP } from 'node:net';
import { type EnvironmentName } from '../accounts/api-key.ts';
import { parseMasterKeys, type MasterKey } from '../accounts/master-key.ts';
import { duration, formatDuration, within, WrongValue, type ValueType } from '../input/value-types.ts';
import type { operatorRoles } from './choices.ts';
import { cryptography, sha256Hex } from '../cryptography.ts';

/** The address of a listener. */
export const address: ValueType<string> = {
  name: 'address',
  expected: 'an IP address or a host name',
  pattern: /^[A-Za-z0-9._:-]+$/,
  read: (text) => text,
};

/** A host as in a request's `Host`, without a port. It is read in lower case. */
export const hostName: ValueType<string> = {
  name: 'host name',
  expected: 'a host name without a port, such as api.pay.example',
  pattern: /^(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:.]+\])$/,
  read: (text) => text.toLowerCase(),
};

interface UpstreamAddress {
  /** `http://host:port` or `https://host:port`, without a path; `http://localhost` for a Unix socket. */
  readonly origin: string;
  /** The socket's path if the upstream is `unix:/path.sock`. */
  readonly socketPath: string | undefined;
}

/** The address of the payment core. */
export const upstreamUrl: ValueType<UpstreamAddress> = {
  name: 'URL',
  expected: 'http://host:port, https://host:port or unix:/path.sock, without a path, query or user',
  pattern: /^(?:https?:\/\/(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?|unix:\/.+)$/,
  read: (text) => {
    if (text.startsWith('unix:')) return { origin: 'http://localhost', socketPath: text.slice('unix:'.length) };
    return URL.canParse(text) ? { origin: new URL(text).origin, socketPath: undefined } : undefined;
  },
};

/** An IP address or a network in CIDR notation. */
export const network: ValueType<string> = {
  name: 'address or CIDR',
  expected: 'an IP address or a network such as 10.0.0.0/8',
  pattern: /^[0-9A-Fa-f:.]+(?:\/[0-9]{1,3})?$/,
  read: (text) => {
    const [ip = '', bits = '0'] = text.split('/');
    const version = isIP(ip);
    return version !== 0 && Number(bits) <= (version === 4 ? 32 : 128) ? text : undefined;
  },
};

/**
 * The path of a route: literal segments, `:parameter` segments and a trailing `/*`. Literals consist of unreserved characters (RFC 3986
 * §2.3). A request in which such a character is percent-encoded is refused, so that each path has only one spelling.
 */
export const routePath: ValueType<string> = {
  name: 'path',
  expected:
    '"/" and segments of letters, digits, "-", ".", "_", "~", or ":parameter"; "/*" at the end covers everything below',
  pattern: /^\/(?:(?:[A-Za-z0-9._~-]+|:[A-Za-z0-9_]+)\/)*(?:[A-Za-z0-9._~-]+|:[A-Za-z0-9_]+|\*)?$/,
  read: (text) => {
    if (/\/\.\.?(?:\/|$)/.test(text)) throw new WrongValue('expected a path without the segments "." and ".."');
    return text;
  },
};

/** A number of attempts within a window of time, read as a number and milliseconds. */
export const rate: ValueType<{ readonly attempts: number; readonly window: number }> = {
  name: 'rate',
  expected: 'a number of attempts and a duration such as 20/1m',
  pattern: /^[1-9][0-9]{0,8}\/[0-9]+(?:ms|s|m|h|d)$/,
  read: (text) => {
    const [attempts, window = ''] = text.split('/');
    const milliseconds = timeLimit.read(window);
    return milliseconds === undefined ? undefined : { attempts: Number(attempts), window: milliseconds };
  },
  format: ({ attempts, window }) => `${attempts}/${formatDuration(window)}`,
};

/** A duration that a timer can run. Node fires a timer of 25 days or more at once. */
export const timeLimit = within(duration, 1, 24 * 86_400_000, 'from 1ms to 24d');

/** The URL of the PostgreSQL database with the accounts. */
export const postgresUrl: ValueType<string> = {
  name: 'URL',
  expected: 'postgres://user:password@host:port/database, special characters of the password percent-encoded',
  pattern: /^postgres(?:ql)?:\/\//,
  read: (text) => (URL.canParse(text) && new URL(text).pathname.length > 1 ? text : undefined),
};

/** The keys that wrap key material, one per line. The first key wraps; all keys unwrap. */
export const masterKeys: ValueType<readonly MasterKey[]> = {
  name: 'master key',
  expected: '32 bytes in base64 or hex; further lines are older keys, which only unwrap',
  pattern: /./,
  read: parseMasterKeys,
};

const tokenForm = '32 to 256 letters, digits or "-._~+/"';
const token = /[A-Za-z0-9._~+/-]{32,256}=*/;

/** One operator's bearer token, read as its hash. Its form is `token68` of RFC 7235 §2.1, as in RFC 6750 §2.1. */
export const operatorToken: ValueType<string> = {
  name: 'token',
  expected: `${tokenForm}, without a name`,
  pattern: new RegExp(`^${token.source}$`),
  read: sha256Hex,
};

const tokenLine = new RegExp(`^(?:(?<name>[A-Za-z0-9._-]{1,64}): *)?(?<token>${token.source})$`);

interface OperatorsToken {
  /** The operator's name in logs and in the audit trail. */
  readonly name: string;
  readonly role: (typeof operatorRoles)[number];
  /** The id of the only account that the operator may see and change; undefined if all accounts are allowed. */
  readonly account: string | undefined;
  /** The only environment that the role `core` may seal for; undefined if both are allowed. */
  readonly environment?: EnvironmentName | undefined;
  /** Lower-case hex SHA-256 of the token. The token itself is not kept. */
  readonly hash: string;
}

/** The tokens of admins, one per line, alone or as `name: token`. */
export const operatorsTokens: ValueType<readonly OperatorsToken[]> = {
  name: 'token',
  expected: `${tokenForm}, one token per line, alone or as "name: token", each name and token once`,
  pattern: /./,
  read: (text) => {
    const tokens = text
      .trim()
      .split(/\s*\n\s*/)
      .map((line): OperatorsToken | undefined => {
        const { name = 'operators', token } = tokenLine.exec(line)?.groups ?? {};
        return token === undefined ? undefined : { name, role: 'admin', account: undefined, hash: sha256Hex(token) };
      });
    const whole = tokens.filter((token) => token !== undefined);
    const areDifferent = (values: readonly string[]): boolean => new Set(values).size === tokens.length;
    return areDifferent(whole.map(({ name }) => name)) && areDifferent(whole.map(({ hash }) => hash))
      ? whole
      : undefined;
  },
};

/** The address of a page, without a fragment. */
export const pageUrl: ValueType<string> = {
  name: 'URL',
  expected: 'an absolute https URL such as https://docs.example/errors, without a query, fragment or user',
  pattern: /^https:\/\/[^\s?#@]+$/,
  read: parseHref,
};

/** The base URL of a service, read without a trailing slash. */
export const baseUrl: ValueType<string> = {
  name: 'URL',
  expected: 'http://host:port or https://host:port, with a path if there is one, without a query, fragment or user',
  pattern: /^https?:\/\/[^\s?#@]+$/,
  read: (text) => parseHref(text)?.replace(/\/$/, ''),
};

function parseHref(text: string): string | undefined {
  return URL.canParse(text) ? new URL(text).href : undefined;
}

/** One or more certificates in PEM. */
export const certificates: ValueType<string> = {
  name: 'PEM file',
  expected: 'the path of a file with certificates in PEM',
  pattern: /./,
  read: (text) => {
    const blocks = text.match(/-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----/g) ?? [];
    if (blocks.length === 0) throw new WrongValue('no certificate in PEM found');
    for (const block of blocks) parsed(() => new X509Certificate(block), 'a certificate that cannot be read');
    return text;
  },
};

/** An unencrypted private key in PEM. */
export const privateKey: ValueType<string> = {
  name: 'PEM file',
  expected: 'the path of a file with a private key in PEM',
  pattern: /./,
  read: (text) => {
    if (!/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text)) throw new WrongValue('no private key in PEM found');
    if (/BEGIN ENCRYPTED|Proc-Type: 4,ENCRYPTED/.test(text))
      throw new WrongValue('the private key has a passphrase: remove the passphrase');
    parsed(() => createPrivateKey(text), 'a private key that cannot be read');
    return text;
  },
};

/** The keys that sign the audit trail. The first one signs now; the others signed earlier events. */
export const auditKeys: ValueType<readonly KeyObject[]> = {
  name: 'Ed25519 key',
  expected: 'Ed25519 private keys in PEM, the signing key first',
  pattern: /./,
  read: (text) => {
    const blocks = text.match(/-----BEGIN PRIVATE KEY-----[^]*?-----END PRIVATE KEY-----/g) ?? [];
    if (blocks.length === 0) return undefined;
    const keys: KeyObject[] = [];
    for (const block of blocks) parsed(() => keys.push(createPrivateKey(block)), 'a private key that cannot be read');
    return keys.every(({ asymmetricKeyType }) => asymmetricKeyType === cryptography.signature.algorithm)
      ? keys
      : undefined;
  },
};

function parsed(parse: () => unknown, message: string): void {
  try {
    parse();
  } catch {
    throw new WrongValue(message);
  }
}

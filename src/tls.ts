import type { SecureContextOptions, TlsOptions } from 'node:tls';

type Tls = typeof import('node:tls');
type Https = typeof import('node:https');

/**
 * Node's `node:tls`, loaded at the first call: loading it parses the certificates of all public CAs, which takes longer than the
 * rest of a start, and takes 5 MB.
 */
export const tls = (): Tls => process.getBuiltinModule('node:tls');

/** Node's `node:https`, which loads `node:tls`. */
export const https = (): Https => process.getBuiltinModule('node:https');

/** The certificate of a listener, and the CA that it demands of its clients; PEM texts. */
export interface ListenerTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string | undefined;
}

/** The certificate of a listener, and its requirement for client certificates. */
export function listenerOptions(tls: ListenerTls): TlsOptions {
  const demands = tls.clientCa === undefined ? {} : { requestCert: true, rejectUnauthorized: true };
  return { ...secureContext(tls), ...demands };
}

/** The part of these options that can be replaced while the listener runs. */
export function secureContext({ cert, key, clientCa }: ListenerTls): SecureContextOptions {
  return { cert, key, minVersion: 'TLSv1.2', ca: clientCa };
}

type Tls = typeof import('node:tls');
type Https = typeof import('node:https');

/**
 * Node's `node:tls`, loaded at the first call: loading it parses the certificates of all public CAs, which takes longer than the
 * rest of a start, and takes 5 MB.
 */
export const tls = (): Tls => process.getBuiltinModule('node:tls');

/** Node's `node:https`, which loads `node:tls`. */
export const https = (): Https => process.getBuiltinModule('node:https');

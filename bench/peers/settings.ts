/** The settings of each peer, in a JSON file. */
export interface PeerSettings {
  readonly port: number;
  /** The port of the upstream, on 127.0.0.1. */
  readonly upstream: number;
  /** The path of the file that gets one line per request. */
  readonly accessLog: string;
  /** The accounts, by the lower-case hex SHA-256 of their API key. */
  readonly accounts: Readonly<Record<string, PeerAccount>>;
  /** The refusals, by code. The body is in two parts, between which the request id goes. */
  readonly refusals: Readonly<Record<'invalid_api_key' | 'envelope_malformed' | 'decryption_failed', PeerRefusal>>;
}

export interface PeerAccount {
  readonly account: string;
  /** A string of 32 characters; absent, like `iv`, if the account does not encrypt. */
  readonly key?: string;
  /** A string of 16 characters. */
  readonly iv?: string;
}

export interface PeerRefusal {
  readonly status: number;
  readonly body: readonly [string, string];
}

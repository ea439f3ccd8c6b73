/** The settings of each peer, in a JSON file. */
export interface PeerSettings {
  readonly port: number;
  /** Port of the upstream, on 127.0.0.1. */
  readonly upstream: number;
  /** The path of the file that gets one line per request. */
  readonly accessLog: string;
  /** By lower-case hex SHA-256 of the API key. */
  readonly accounts: Readonly<Record<string, PeerAccount>>;
  /** Refusals by code; the body is in two parts, and the request id goes between them. */
  readonly refusals: Readonly<Record<'invalid_api_key' | 'envelope_malformed' | 'decryption_failed', PeerRefusal>>;
}

export interface PeerAccount {
  readonly account: string;
  /** 32 characters; absent, like `iv`, if the account does not encrypt. */
  readonly key?: string;
  /** 16 characters. */
  readonly iv?: string;
}

export interface PeerRefusal {
  readonly status: number;
  readonly body: readonly [string, string];
}

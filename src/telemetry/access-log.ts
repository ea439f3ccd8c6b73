import type { EnvironmentName } from '../accounts/api-key.ts';
import type { RefusalCode } from '../errors.ts';
import type { Logger } from './logger.ts';

/** What the log says of a request: these members and no others. No path, query, header, body, address or key. */
export interface AccessLine {
  /** `[A-Za-z0-9._-]` only. */
  readonly request_id: string;
  /** Hex digits only. */
  readonly trace_id: string | undefined;
  readonly environment: EnvironmentName | undefined;
  readonly route: string;
  /** One of those that Node's parser knows. */
  readonly method: string | undefined;
  readonly status: number;
  readonly code: RefusalCode | undefined;
  /** Refusals that were only reported, joined by commas. */
  readonly reported: string | undefined;
  readonly account: string | undefined;
  readonly api_key: string | undefined;
  /** During a grace: which credentials the request was answered with. */
  readonly credentials: 'current' | 'previous' | 'none' | undefined;
  readonly reason: string | undefined;
  readonly upstream_error: string | undefined;
  readonly bytes_in: number | undefined;
  readonly bytes_out: number | undefined;
  readonly duration_ms: number | undefined;
  readonly upstream_ms: number | undefined;
  readonly envelope_ms: number | undefined;
}

/** Level numbers of pino. */
const levels = { info: 30, warn: 40, error: 50 } as const;

/**
 * Writes access lines. A line is what pino would have written, byte for byte, but is built in one expression: pino walks
 * and escapes the members of each line, which costs more than the rest of a request's bookkeeping.
 */
export class AccessLog {
  readonly #log: Logger;
  #time = Number.NaN;
  #timeText = '';

  constructor(log: Logger) {
    this.#log = log;
  }

  /**
   * Writes the line of a request that is over: a 5xx status at the level `error`, another refusal at `warn`, all else at `info`.
   *
   * @param now epoch milliseconds
   */
  write(line: AccessLine, now: number): void {
    const level = line.status >= 500 ? 'error' : line.code === undefined ? 'info' : 'warn';
    if (levels[level] < this.#log.levelVal) return;
    if (now !== this.#time) {
      this.#time = now;
      this.#timeText = new Date(now).toISOString();
    }
    this.#log.destination.write(format(line, level, this.#timeText));
  }
}

function format(line: AccessLine, level: string, time: string): string {
  // What the sidecar or Node has made or validated needs no escaping; the rest is quoted as JSON.
  return (
    `{"level":"${level}","time":"${time}","request_id":"${line.request_id}"` +
    (line.trace_id === undefined ? '' : `,"trace_id":"${line.trace_id}"`) +
    (line.environment === undefined ? '' : `,"environment":"${line.environment}"`) +
    `,"route":${JSON.stringify(line.route)}` +
    (line.method === undefined ? '' : `,"method":"${line.method}"`) +
    `,"status":${line.status}` +
    (line.code === undefined ? '' : `,"code":"${line.code}"`) +
    (line.reported === undefined ? '' : `,"reported":"${line.reported}"`) +
    (line.account === undefined ? '' : `,"account":${JSON.stringify(line.account)}`) +
    (line.api_key === undefined ? '' : `,"api_key":${JSON.stringify(line.api_key)}`) +
    (line.credentials === undefined ? '' : `,"credentials":"${line.credentials}"`) +
    (line.reason === undefined ? '' : `,"reason":"${line.reason}"`) +
    (line.upstream_error === undefined ? '' : `,"upstream_error":${JSON.stringify(line.upstream_error)}`) +
    (line.bytes_in === undefined ? '' : `,"bytes_in":${line.bytes_in}`) +
    (line.bytes_out === undefined ? '' : `,"bytes_out":${line.bytes_out}`) +
    (line.duration_ms === undefined ? '' : `,"duration_ms":${line.duration_ms}`) +
    (line.upstream_ms === undefined ? '' : `,"upstream_ms":${line.upstream_ms}`) +
    (line.envelope_ms === undefined ? '' : `,"envelope_ms":${line.envelope_ms}`) +
    ',"msg":"request"}\n'
  );
}

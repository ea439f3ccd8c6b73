import type { EnvironmentName } from '../accounts/api-key.ts';
import type { RefusalCode } from '../errors.ts';
import type { Logger } from './logger.ts';
import type { EpochMs } from '../times.ts';

/** The members of an access line. This allow-list excludes path, query, headers, body and key. */
export interface AccessLine {
  /** Consists of `[A-Za-z0-9._-]` only, as do `account` and `api_key`. */
  readonly request_id: string;
  /** Hex digits only. */
  readonly trace_id?: string | undefined;
  /** The client's address or its network, as configured: digits, letters, `.`, `:` and `/`. */
  readonly client?: string | undefined;
  readonly environment?: EnvironmentName | undefined;
  /** A configured pattern, `unlisted` or `none`. Nothing in it needs an escape in JSON. */
  readonly route: string;
  /** One of the methods that Node knows. */
  readonly method?: string | undefined;
  readonly status: number;
  readonly code?: RefusalCode | undefined;
  /** Why the sidecar closed the connection before the end of the response, as a word of letters and `_`. */
  readonly closed?: string | undefined;
  /** The codes of refusals that were only reported, separated by commas. */
  readonly reported?: string | undefined;
  readonly account?: string | undefined;
  readonly api_key?: string | undefined;
  /** The credentials of the response; set only during a grace period. */
  readonly credentials?: 'current' | 'previous' | 'none' | undefined;
  readonly reason?: string | undefined;
  readonly upstream_error?: string | undefined;
  readonly bytes_in?: number | undefined;
  readonly bytes_out?: number | undefined;
  /** In milliseconds, to the microsecond; at most 10^12. */
  readonly duration_ms?: number | undefined;
  readonly upstream_ms?: number | undefined;
  readonly envelope_ms?: number | undefined;
}

/** pino's level numbers. */
const levels = { info: 30, warn: 40, error: 50 } as const;

/** The decimal places for 0 to 999 thousandths, as JSON writes them: `''`, `.001` … `.999`. */
const fractions = Array.from({ length: 1_000 }, (_, thousandths) => String(thousandths / 1_000).slice(1));

/**
 * Writes access lines, byte for byte as pino would. pino walks and escapes the members of each line, which costs more than the rest of a
 * request's bookkeeping. Here, a single expression builds the line.
 */
export class AccessLog {
  readonly #log: Logger;
  #time = Number.NaN;
  #timeMember = '';

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Writes the line for a completed request: at level `error` if the status is 5xx, at `warn` for other refusals, otherwise at `info`. */
  write(line: AccessLine, now: EpochMs): void {
    const level = line.status >= 500 ? 'error' : line.code === undefined ? 'info' : 'warn';
    if (levels[level] < this.#log.levelVal) return;
    if (now !== this.#time) {
      this.#time = now;
      this.#timeMember = `","time":"${new Date(now).toISOString()}","request_id":"`;
    }
    this.#log.destination.write(format(line, `{"level":"${level}${this.#timeMember}`));
  }
}

/** @param start the line up to the value of `request_id` */
function format(line: AccessLine, start: string): string {
  // The sidecar, Node or a schema guarantees that these values need no escaping. Only the upstream's error may need it.
  return (
    start +
    line.request_id +
    (line.trace_id === undefined ? '' : `","trace_id":"${line.trace_id}`) +
    (line.client === undefined ? '' : `","client":"${line.client}`) +
    (line.environment === undefined ? '' : `","environment":"${line.environment}`) +
    `","route":"${line.route}"` +
    (line.method === undefined ? '' : `,"method":"${line.method}"`) +
    `,"status":${line.status}` +
    (line.code === undefined ? '' : `,"code":"${line.code}"`) +
    (line.closed === undefined ? '' : `,"closed":"${line.closed}"`) +
    (line.reported === undefined ? '' : `,"reported":"${line.reported}"`) +
    (line.account === undefined ? '' : `,"account":"${line.account}"`) +
    (line.api_key === undefined ? '' : `,"api_key":"${line.api_key}"`) +
    (line.credentials === undefined ? '' : `,"credentials":"${line.credentials}"`) +
    (line.reason === undefined ? '' : `,"reason":"${line.reason}"`) +
    (line.upstream_error === undefined ? '' : `,"upstream_error":${JSON.stringify(line.upstream_error)}`) +
    (line.bytes_in === undefined ? '' : `,"bytes_in":${line.bytes_in}`) +
    (line.bytes_out === undefined ? '' : `,"bytes_out":${line.bytes_out}`) +
    (line.duration_ms === undefined ? '' : `,"duration_ms":${milliseconds(line.duration_ms)}`) +
    (line.upstream_ms === undefined ? '' : `,"upstream_ms":${milliseconds(line.upstream_ms)}`) +
    (line.envelope_ms === undefined ? '' : `,"envelope_ms":${milliseconds(line.envelope_ms)}`) +
    ',"msg":"request"}\n'
  );
}

/**
 * A duration, rounded to whole microseconds, as JSON writes it. Formatting two integers is several times as fast as formatting a fraction.
 */
function milliseconds(duration: number): string {
  const microseconds = Math.round(duration * 1_000);
  const whole = Math.floor(microseconds / 1_000);
  return `${whole}${fractions[microseconds - whole * 1_000]}`;
}

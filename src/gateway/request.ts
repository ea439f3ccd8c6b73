import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { kindOf, type EnvironmentName } from '../accounts/api-key.ts';
import type { KeyHolder } from '../accounts/key-directory.ts';
import type { ReportableCode } from '../config/config.ts';
import type { RequestTrace } from '../telemetry/tracing.ts';
import type { Reservation } from './limits.ts';
import type { RequestHead } from './request-head.ts';
import { RequestStats } from './request-stats.ts';
import type { Rules } from './rules.ts';
import type { ActiveEncryption } from './sealing.ts';

/**
 * The facts about one request of a merchant. Admission adds them in the order of its steps. Later steps read `RequestFacts`;
 * they record measurements in `stats` and refusals with `report`.
 */
export class Request {
  readonly raw: IncomingMessage;
  /** The rules at the time it began. */
  readonly rules: Rules;
  /** Its parts of the budgets. */
  readonly reservation: Reservation;
  readonly stats = new RequestStats();
  /** The client's own id if it is acceptable, otherwise a new one. */
  id = '';
  /** Undefined if the guard has not accepted it. */
  head: RequestHead | undefined;
  environment: EnvironmentName | undefined;
  /** The label of metrics: a configured pattern, `unlisted`, or `none` before routing. */
  route = 'none';
  /** Whether a browser may read a refusal: the route is open to public keys. */
  allowsCors = false;
  holder: KeyHolder | undefined;
  /** How the account encrypts here, decided at the head, so that a grace does not end within a request. */
  encryption: ActiveEncryption | undefined;
  /** Present if traces are configured. */
  trace: RequestTrace | undefined;
  /** Refusals that are only reported. The request is forwarded as if the rule did not exist. */
  reported: readonly ReportableCode[] = [];

  constructor(raw: IncomingMessage, rules: Rules, reservation: Reservation) {
    this.raw = raw;
    this.rules = rules;
    this.reservation = reservation;
  }

  /** @param head undefined if the guard refuses it */
  begin(head: RequestHead | undefined): void {
    this.head = head;
    this.id = head?.requestId ?? randomUUID();
  }

  identify(holder: KeyHolder, encryption: ActiveEncryption | undefined): void {
    this.holder = holder;
    this.encryption = encryption;
    this.reservation.identify(kindOf(holder.key.prefix));
  }

  /** Records a refusal that the configuration says to report only. @returns false if the request must be refused */
  report(code: ReportableCode): boolean {
    if (!this.rules.report.has(code)) return false;
    this.reported = [...this.reported, code];
    return true;
  }

  /** Whether some of its body has not arrived yet. */
  get bodyPending(): boolean {
    const { head, raw, stats } = this;
    if (head?.body.type === 'none' || raw.complete) return false;
    // Node's parser reports the last byte before the end.
    return stats.bytesIn + raw.readableLength !== head?.body.contentLength;
  }
}

/** A request, as all parts except admission see it. */
export type RequestFacts = Readonly<Request>;

import type { ResponseHandler } from '../upstream/call.ts';
import type { UpstreamFailure } from '../upstream/failure.ts';
import type { GatewayRequest } from './gateway-request.ts';

/** Brings the upstream's response to the client: the part that plain and sealed responses share. */
export abstract class ResponseRelay implements ResponseHandler {
  protected readonly request: GatewayRequest;
  protected ended = false;
  #stalled = false;

  constructor(request: GatewayRequest) {
    this.request = request;
  }

  abstract onInformation(status: number, headers: readonly string[]): void;
  abstract onHead(status: number, headers: readonly string[]): void;
  abstract onData(chunk: Buffer): void;
  abstract onEnd(): void;

  onFailure(failure: UpstreamFailure): void {
    this.request.times.upstreamEnds();
    this.request.upstreamFailure = failure;
    this.request.giveUp(failure.code);
  }

  onError(error: unknown): void {
    this.request.fail(error);
  }

  /** Grants the upstream another `timeouts.upstream` of silence. */
  protected waitForUpstream(): void {
    if (!this.#stalled) this.request.wait('upstream_timeout');
  }

  /** Writes on; while the client reads slower than the upstream sends, the source is paused. */
  protected write(chunk: Buffer | string, source: { pause(): void; resume(): void } | undefined): void {
    const { res } = this.request;
    this.request.bytesOut += chunk.length;
    if (res.write(chunk, 'latin1') || this.#stalled) return;
    this.#stalled = true;
    source?.pause();
    this.request.wait('client_stalled');
    res.once('drain', () => {
      this.#stalled = false;
      if (!this.ended) this.waitForUpstream();
      source?.resume();
    });
  }

  protected end(last?: Buffer | string): void {
    this.ended = true;
    this.request.bytesOut += last?.length ?? 0;
    this.request.end(last);
  }
}

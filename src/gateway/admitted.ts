import type { Refusal } from './refusal.ts';
import type { Reply } from './reply.ts';
import type { RequestHead } from './request-head.ts';
import type { ServedEnvironment } from './rules.ts';

/** The two endpoints with which merchants test their code. */
export type CipherTest = 'encrypt' | 'decrypt';

/** A request that admission has let through: what the later steps work on. */
export interface Admitted {
  readonly reply: Reply;
  readonly head: RequestHead;
  readonly environment: ServedEnvironment;
  /** The test endpoint that serves it; without one it goes to the upstream. */
  readonly test: CipherTest | undefined;
  /** Whether its route has envelopes. A test endpoint has none. */
  readonly enveloped: boolean;
}

/** How a request was served: a refusal, or undefined if a response has begun or will follow. */
export type Served = Refusal | undefined | Promise<Refusal | undefined>;

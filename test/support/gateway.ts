import type { Account, Encryption } from '../../src/accounts/account.ts';
import type { Environment } from '../../src/config/config.ts';
import { acme, configOf, startSidecar, type TestSidecar } from './sidecar.ts';
import { startUpstream, type Respond, type SeenRequest, type TestUpstream } from './upstream.ts';

/** A configuration's members, as `configOf` takes them, and what stands around the sidecar. */
type Setting = Parameters<typeof configOf>[1] & {
  /** `test` or `live` alone answers for every host; of both, `sandbox.pay.example` is test and `api.pay.example` live. */
  readonly serves?: 'test' | 'live' | 'both';
  readonly respond?: Respond;
  /** Epoch milliseconds. */
  readonly clock?: () => number;
};

/** A sidecar before an upstream that answers whole requests; both are closed when the test is over. */
export async function startGateway({ respond, clock, serves = 'test', ...config }: Setting = {}): Promise<{
  readonly sidecar: TestSidecar;
  readonly upstream: TestUpstream;
}> {
  const upstream = await startUpstream(respond);
  const base = configOf(upstream.origin, config);
  const environments = base.environments.flatMap((environment): readonly Environment[] =>
    serves === 'both'
      ? [
          { ...environment, name: 'test', hosts: ['sandbox.pay.example'] },
          { ...environment, name: 'live', hosts: ['api.pay.example'] },
        ]
      : [{ ...environment, name: serves }],
  );
  const sidecar = await startSidecar({ ...base, environments }, clock);
  return { sidecar, upstream };
}

/** The first request the upstream saw. */
export function firstSeen({ seen }: TestUpstream): SeenRequest {
  const [first] = seen;
  if (first === undefined) throw new Error('the upstream saw nothing');
  return first;
}

/** The account `acme` with its encryption in test as stated; in live it has none. */
export function acmeWith(encryption: Encryption): Account {
  return { ...acme, encryption: { test: encryption } };
}

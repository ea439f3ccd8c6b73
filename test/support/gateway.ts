import type { Account, Encryption } from '../../src/accounts/account.ts';
import type { Environment } from '../../src/config/config.ts';
import { acme, configOf, startSidecar, type TestSidecar } from './sidecar.ts';
import { startUpstream, type Respond, type SeenRequest, type TestUpstream } from './upstream.ts';

/** Members of the configuration, as `configOf` takes them, and settings of the upstream and the clock. */
type Setting = Parameters<typeof configOf>[1] & {
  /** `test` or `live` alone serves every host; with both, `sandbox.pay.example` is test and `api.pay.example` live. */
  readonly serves?: 'test' | 'live' | 'both';
  readonly respond?: Respond;
  /** Returns epoch milliseconds. */
  readonly clock?: () => number;
};

/** Starts a sidecar and an upstream that responds to complete requests. Both are closed after the test. */
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

/** The account `acme` with this encryption in test and none in live. */
export function acmeWith(encryption: Encryption): Account {
  return { ...acme, encryption: { test: encryption } };
}

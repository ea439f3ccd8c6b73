import type { Account, Encryption } from '../../src/accounts/account.ts';
import { acme, configOf, startSidecar, type TestSidecar } from './sidecar.ts';
import { startUpstream, type Respond, type TestUpstream } from './upstream.ts';

/** A configuration's members, as `configOf` takes them, and what stands around the sidecar. */
type Setting = Parameters<typeof configOf>[1] & {
  /** Both environments, told apart by the hosts `sandbox.pay.example` and `api.pay.example`. */
  readonly bothEnvironments?: boolean;
  readonly respond?: Respond;
  /** Epoch milliseconds. */
  readonly clock?: () => number;
};

/** A sidecar before an upstream that answers whole requests; both are closed when the test is over. */
export async function startGateway({ respond, clock, bothEnvironments, ...config }: Setting = {}): Promise<{
  readonly sidecar: TestSidecar;
  readonly upstream: TestUpstream;
}> {
  const upstream = await startUpstream(respond);
  const base = configOf(upstream.origin, config);
  const environments =
    bothEnvironments === true
      ? base.environments.flatMap((environment) => [
          { ...environment, name: 'test' as const, hosts: ['sandbox.pay.example'] },
          { ...environment, name: 'live' as const, hosts: ['api.pay.example'] },
        ])
      : base.environments;
  const sidecar = await startSidecar({ ...base, environments }, clock);
  return { sidecar, upstream };
}

/** The account `acme` with its encryption in test as stated; in live it has none. */
export function acmeWith(encryption: Encryption): Account {
  return { ...acme, encryption: { test: encryption } };
}

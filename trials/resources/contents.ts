import type { Certificate } from '../../test/support/certificates.ts';
import type { Contents } from '../../test/support/folder.ts';
import { contentsOf, type Pair } from '../load/pair.ts';
import { attackedHost, otherVisitorsKeys, shopCredentials, visitorsKey, visitorsTestKey } from './attack.ts';
import { operatorsToken } from './operator.ts';

/** The files of a sidecar with every feature on. The environment `test` uses the merchants' core, and `live` uses the attackers' core. */
export function contentsUnder(limits: Contents, pair: Pair, attackersCore: string, tls: Certificate): Contents {
  const [one, two] = pair;
  const files = contentsOf(one, two, {
    environments: {
      test: { hosts: ['127.0.0.1'], upstream: one.core.origin },
      live: { hosts: [attackedHost], upstream: attackersCore },
    },
    operators: { host: '127.0.0.1', port: 0, token: operatorsToken, tls },
    routes: [
      { path: '/api/s2s/*', envelope: true },
      { path: '/pay/*', keys: ['public', 'secret'] },
      { path: '/shop/*', keys: ['public', 'secret'], envelope: true },
      { path: '/socket', keys: ['public'], upgrade: true },
    ],
    // This lets attackers use as many addresses as they like.
    trustedProxies: ['127.0.0.0/8'],
    // The trace collector never responds.
    tracing: { otlp: `${attackersCore}/traces`, sample: 0.1 },
    limits,
    // The timeouts are shorter than the defaults, so that resources are released and taken again, but long enough that
    // not everything expires by itself.
    timeouts: { header: '5s', request: '20s', upstream: '20s', idle: '20s' },
  });
  const { accounts } = files['accounts.yaml'] as { readonly accounts: readonly Contents[] };
  const shop = {
    id: 'shop',
    name: 'Shop',
    keys: [visitorsKey, visitorsTestKey].map((key, i) => ({ id: `visitor-${i}`, key, createdAt: '2026-11-01' })),
    encryption: {
      test: { enabled: true, ...shopCredentials.test },
      live: { enabled: true, ...shopCredentials.live },
    },
  };
  const others = otherVisitorsKeys.map((key, i) => ({
    id: `shop-${i}`,
    name: `Shop ${i}`,
    keys: [{ id: `other-visitor-${i}`, key, createdAt: '2026-11-01' }],
    encryption: { live: { enabled: true, ...shopCredentials.live, key: `${i}`.repeat(32) } },
  }));
  return { ...files, 'accounts.yaml': { accounts: [...accounts, shop, ...others] } };
}

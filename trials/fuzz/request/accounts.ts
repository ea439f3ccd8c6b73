import type { Contents } from '../../../test/support/folder.ts';
import { acmeLive, acmeTest, apiKey, keys } from '../../../test/support/sidecar.ts';
import type { Secrets } from '../envelope/oracle.ts';

/** The properties of a key that the fuzzer's model needs. */
export interface KnownKey {
  readonly key: string;
  readonly account: string;
  readonly keyId: string;
  readonly kind: 'secret' | 'public';
  readonly environment: 'test' | 'live';
  /** Whether the key's account is active. */
  readonly active: boolean;
  readonly encryption: KnownEncryption | undefined;
}

interface KnownEncryption {
  readonly current: Secrets;
  readonly encoding: 'hex' | 'base64';
  /** The credentials that a grace period accepts, or `plaintext`. */
  readonly grace: Secrets | 'plaintext' | undefined;
}

const renewed = { key: 'T5nVb8Rq2LxWc7Kd1MzYf4Hg9PjSa6Ue', iv: 'Lm3Nk7Jb1Vc5Xz9Q' };
const former = { key: 'D2sFg6Hj8KlZx4Cv1Bn5Mq7We3RtYu9I', iv: 'Po9Iu7Yt5Re3Wq1L' };
const moving = { key: 'A9zSx3Dc6Fv2Gb7Hn4Jm8Kl1Qw5ErTy0', iv: 'Zp2Xo4Ci6Vu8By0N' };
const until = '2999-01-01';

const renewedKey = 'sk_test_initechinitechinitech0001';
const movingKey = 'sk_test_hoolihoolihoolihooli0001';
const closedKey = 'sk_test_closedclosedclosed000001';
const expiredKey = 'sk_test_expiredexpiredexpired001';

/** The contents of the accounts file. */
export const accounts: Contents = {
  accounts: [
    {
      id: 'acme',
      name: 'Acme Stores',
      keys: [entryOf(keys.acme), entryOf(keys.acmePublic), entryOf(keys.acmeLive)],
      encryption: { test: { enabled: true, ...acmeTest }, live: { enabled: true, ...acmeLive } },
    },
    {
      id: 'globex',
      name: 'Globex',
      keys: [entryOf(keys.globex), entryOf(keys.globexPublic), entryOf(expiredKey, { expiresAt: '2020-01-01' })],
    },
    {
      id: 'initech',
      name: 'Initech',
      keys: [entryOf(renewedKey)],
      encryption: { test: { enabled: true, ...renewed, encoding: 'base64', previous: { ...former, until } } },
    },
    {
      id: 'hooli',
      name: 'Hooli',
      keys: [entryOf(movingKey)],
      encryption: { test: { enabled: true, ...moving, previous: { until } } },
    },
    {
      id: 'closed',
      name: 'Closed',
      active: false,
      keys: [entryOf(closedKey)],
      encryption: { test: { enabled: true, ...moving } },
    },
  ],
};

function entryOf(key: string, more: Contents = {}): Contents {
  return { id: apiKey(key).id, key, createdAt: '2019-01-01', ...more };
}

function known(key: string, account: string, active: boolean, encryption?: KnownEncryption): KnownKey {
  return {
    key,
    account,
    keyId: apiKey(key).id,
    kind: key.startsWith('sk_') ? 'secret' : 'public',
    environment: key.includes('_live_') ? 'live' : 'test',
    active,
    encryption,
  };
}

const inTest = { current: acmeTest, encoding: 'hex', grace: undefined } as const;

/** The keys that the sidecar knows and admits, or would admit if their account were active. */
export const knownKeys: readonly KnownKey[] = [
  known(keys.acme, 'acme', true, inTest),
  known(keys.acmePublic, 'acme', true, inTest),
  known(keys.acmeLive, 'acme', true, { current: acmeLive, encoding: 'hex', grace: undefined }),
  known(keys.globex, 'globex', true),
  known(keys.globexPublic, 'globex', true),
  known(renewedKey, 'initech', true, { current: renewed, encoding: 'base64', grace: former }),
  known(movingKey, 'hooli', true, { current: moving, encoding: 'hex', grace: 'plaintext' }),
  known(closedKey, 'closed', false, { current: moving, encoding: 'hex', grace: undefined }),
];

/** Keys that the sidecar does not admit. */
export const uselessKeys = [expiredKey, 'sk_test_nobodynobodynobody', 'sk_test_short', 'acme', keys.acme.toUpperCase()];

/** All secrets. */
export const allSecrets: readonly Secrets[] = [acmeTest, acmeLive, renewed, former, moving];

/** The key in an `Authorization` header, if the sidecar knows it. */
export function keyIn(authorization: string | undefined): KnownKey | undefined {
  const key = /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  return knownKeys.find((each) => each.key === key);
}

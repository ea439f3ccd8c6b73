import type { Contents } from '../../test/support/folder.ts';
import { startCore } from '../load/core.ts';
import { everyFeature, startBacking } from '../load/every-feature.ts';
import { accountsOf, pairOf, type Pair, type Version } from '../load/pair.ts';
import type { Defer } from '../load/stage.ts';
import type { PeerTls } from '../load/tls-socket.ts';

/** Two cores, and the files for a sidecar in front of each, with every feature on and the accounts in a file. */
export interface Setup {
  readonly pair: Pair;
  /** The certificates of merchants. */
  readonly tls: PeerTls;
  readonly contentsOf: (version: Version, other: Version, more?: Contents) => Contents;
}

const timeouts = { connect: '2s', header: '10s', request: '60s', upstream: '30s', idle: '75s', drain: '25s' };

export async function startSetup(defer: Defer): Promise<Setup> {
  const backing = await startBacking(defer);
  const server = { ca: backing.ca, ...backing.server };
  const pair = pairOf(
    await startCore('one', defer, undefined, server),
    await startCore('two', defer, undefined, server),
  );
  return {
    pair,
    tls: { ca: backing.ca, ...backing.client },
    contentsOf: (version, other, more = {}) => ({
      'sidecar.yaml': {
        ...everyFeature(backing, { core: version.core.origin, accounts: 'file', tls: true, timeouts }),
        ...more,
      },
      'accounts.yaml': accountsOf(version, other),
    }),
  };
}

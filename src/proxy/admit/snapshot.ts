import { BlockList, isIPv6 } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import type { EnvironmentName } from '../../accounts/api-key.ts';
import type { ClientDetail, Config, Limits, Route, Timeouts } from '../../config/config.ts';
import type { RefusalCode } from '../../errors.ts';
import { Upstream } from '../../upstream/upstream.ts';
import { Router } from './router.ts';

/** An environment as the gateway serves it. */
export interface ServedEnvironment {
  readonly name: EnvironmentName;
  readonly upstream: Upstream;
  /** Whether `Authorization` is forwarded, because the upstream checks keys itself. */
  readonly forwardsAuthorization: boolean;
  /** Whether this environment has the two test endpoints. */
  readonly cipherTest: boolean;
}

/**
 * The configuration that a request is served with. It is replaced as a whole, so that no request sees half of a change. The accounts are
 * not part of the snapshot, because a WebSocket keeps its snapshot and may outlive a thousand changes to the accounts.
 */
export class GatewaySnapshot {
  readonly router: Router;
  readonly #routes: readonly Route[];
  readonly limits: Limits;
  readonly timeouts: Timeouts;
  readonly report: ReadonlySet<RefusalCode>;
  /** The address of the page that explains the refusals; undefined if there is none. */
  readonly errorsPage: string | undefined;
  /** How much of a client's address is logged. */
  readonly clientDetail: ClientDetail;
  /** Whether both environments are served. If so, test must leave a part of each limit for live. */
  readonly servesBoth: boolean;
  readonly #upstreams: ReadonlySet<Upstream>;
  readonly #byHost = new Map<string, ServedEnvironment>();
  readonly #forEveryHost: ServedEnvironment | undefined;
  readonly #trustedProxies: BlockList | undefined;

  /** @param before the snapshot that this one replaces */
  constructor(config: Config, upstreams: ReadonlyMap<EnvironmentName, Upstream>, before?: GatewaySnapshot) {
    // A request keeps its router in memory until it ends, so snapshots with the same routes share one router.
    const areKept = before !== undefined && isDeepStrictEqual(before.#routes, config.routes);
    this.#routes = config.routes;
    this.router = areKept ? before.router : new Router(config.routes);
    this.limits = config.limits;
    this.timeouts = config.timeouts;
    this.report = new Set(config.report);
    this.errorsPage = config.documentation;
    this.clientDetail = config.log.client;
    this.servesBoth = config.environments.length > 1;
    this.#upstreams = new Set(upstreams.values());
    for (const { name, hosts, upstream: target } of config.environments) {
      const upstream = upstreams.get(name);
      if (upstream === undefined) throw new Error(`no upstream for the environment ${name}`);
      const cipherTest = config.cipherTest.environments.includes(name);
      const served = { name, upstream, forwardsAuthorization: target.forwardsAuthorization, cipherTest };
      if (hosts.length === 0) this.#forEveryHost = served;
      for (const host of hosts) this.#byHost.set(host, served);
    }
    if (config.trustedProxies.length > 0) this.#trustedProxies = blockList(config.trustedProxies);
  }

  /** The environment of a `Host`, ignoring its port and letter case; undefined if no environment has this host. */
  findEnvironment(host: string): ServedEnvironment | undefined {
    return this.#forEveryHost ?? this.#byHost.get(host.toLowerCase().replace(/:\d+$/, ''));
  }

  /** Whether an upstream belongs to this snapshot. A newer snapshot may have a different upstream instead. */
  has(upstream: Upstream): boolean {
    return this.#upstreams.has(upstream);
  }

  /** Whether a peer is a trusted proxy. */
  trusts(address: string): boolean {
    return this.#trustedProxies?.check(address, isIPv6(address) ? 'ipv6' : 'ipv4') ?? false;
  }
}

function blockList(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = '', prefix] = network.split('/');
    const family = isIPv6(address) ? 'ipv6' : 'ipv4';
    if (prefix === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(prefix), family);
  }
  return list;
}

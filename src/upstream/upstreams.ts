import type { EnvironmentName } from '../accounts/api-key.ts';
import type { Settings } from '../config/config.ts';
import { Upstream } from './upstream.ts';

/** The upstreams in use. One whose settings stay the same keeps its connections. */
export class Upstreams {
  #inUse: ReadonlyMap<EnvironmentName, { readonly settings: string; readonly upstream: Upstream }> = new Map();

  /** Takes those of a configuration into use. Those before are not closed: requests may be on their way to them. */
  configure({ environments, timeouts }: Settings): ReadonlyMap<EnvironmentName, Upstream> {
    this.#inUse = new Map(
      environments.map(({ name, upstream: target }) => {
        const settings = JSON.stringify([target, timeouts.connect]);
        const before = this.#inUse.get(name);
        const isSame = before?.settings === settings;
        return [name, isSame ? before : { settings, upstream: new Upstream(target, timeouts.connect) }];
      }),
    );
    return new Map([...this.#inUse].map(([name, { upstream }]) => [name, upstream]));
  }

  all(): readonly Upstream[] {
    return [...this.#inUse.values()].map(({ upstream }) => upstream);
  }
}

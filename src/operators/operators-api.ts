import { untilServed } from '../accounts/until-served.ts';
import type { Accounts } from '../accounts/accounts.ts';
import type { Config } from '../config/config.ts';
import { ByteBudget } from './byte-budget.ts';
import type { Parts } from './endpoint.ts';
import { createOperatorsListener, type OperatorsApi, type OperatorsDependencies } from './listener.ts';

interface OperatorsApiDependencies extends Omit<OperatorsDependencies, 'state'>, Pick<Parts, 'recent' | 'sidecar'> {
  /** Returns the current configuration. Like `accounts`, it is called for each request, because a reload may replace both. */
  readonly config: () => Config;
  readonly accounts: () => Accounts;
}

/** How long the response to a change waits for this sidecar to apply the change, in milliseconds. */
const servedPatience = 2_000;

/** Creates the operators' API for the current accounts and configuration. */
export function createOperatorsApi(dependencies: OperatorsApiDependencies): Promise<OperatorsApi> {
  const { config, accounts, recent, sidecar, ...rest } = dependencies;
  const find = (account: string) => accounts().find(account);
  const sealing = new ByteBudget(() => {
    const { requestBody, buffered } = config().limits;
    // The budget has room for at least two bodies, so that each owner's half has room for one.
    return Math.max(2 * requestBody, buffered / 8);
  });
  const state = () => {
    const { operators, documentation } = config();
    // If there are no tokens, every request is refused.
    const { tokens = [], hosts = [], console = false } = operators ?? {};
    const used = accounts();
    const { operations, vault, database } = used;
    const isServed: Parts['isServed'] = async (account, hints) => {
      const stored = (id: string) => operations.stored(id, hints);
      const isInForce = await untilServed(
        account,
        { stored, vault, find, directory: () => used.directory },
        servedPatience,
      );
      // A reload may have replaced the store. The change is then in the previous store, not in the current one.
      return isInForce && accounts() === used;
    };
    // The database user may lack the right to read daily uses, which earlier versions did not need. Everything else works without that
    // right.
    const dailyUses: Parts['dailyUses'] = async (owner, keys, now) =>
      database?.dailyUses(owner, keys, now).catch(() => undefined);
    return { operations, isServed, find, sealing, recent, dailyUses, sidecar, tokens, hosts, console, documentation };
  };
  return createOperatorsListener({ state, ...rest });
}

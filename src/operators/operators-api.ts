import type { Server } from 'node:http';
import { untilServed } from '../accounts/until-served.ts';
import type { Accounts } from '../accounts/accounts.ts';
import type { Config } from '../config/config.ts';
import type { Parts } from './endpoint.ts';
import { createOperatorsListener, type OperatorsDependencies } from './listener.ts';

interface OperatorsApiDependencies extends Omit<OperatorsDependencies, 'state'>, Pick<Parts, 'recent' | 'sidecar'> {
  /** The configuration in force. Called for each request, as is `accounts`, because a reload may replace both. */
  readonly config: () => Config;
  readonly accounts: () => Accounts;
}

/** How long the response to a change waits until this sidecar has applied it. Milliseconds. */
const servedPatience = 2_000;

/** The listener of the operators' API on the accounts and the configuration in force, not opened yet. */
export function createOperatorsApi(dependencies: OperatorsApiDependencies): Promise<Server> {
  const { config, accounts, recent, sidecar, ...rest } = dependencies;
  const isServed = (account: string): Promise<boolean> => {
    const { operations, vault } = accounts();
    return untilServed(account, { operations, vault, directory: () => accounts().directory }, servedPatience);
  };
  const state = () => {
    const { operators, documentation } = config();
    // Without tokens every request is refused.
    const { tokens = [], hosts = [], console = false } = operators ?? {};
    return { operations: accounts().operations, isServed, recent, sidecar, tokens, hosts, console, documentation };
  };
  return createOperatorsListener({ state, ...rest });
}

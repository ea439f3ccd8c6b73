import { Argument, InvalidArgumentError, Option } from 'commander';
import { identifier } from '../accounts/value-types.ts';
import { environmentNames } from '../accounts/api-key.ts';
import { parseAs, WrongValue, type ValueType } from '../input/value-types.ts';
import { capitalised } from '../input/text-value.ts';
import { defaultConfig, type CliIo } from './io.ts';

/** Creates a parser for an argument or an option that has the type of a configuration value. Invalid text is reported as wrong usage. */
export function readAs<T>(type: ValueType<T>): (text: string) => T {
  return (text) => {
    try {
      return parseAs(type, text);
    } catch (error) {
      if (!(error instanceof WrongValue)) throw error;
      throw new InvalidArgumentError(`${capitalised(error.message)}.`);
    }
  };
}

/** The option `--config`, for every command that works on a configuration. */
export function configOption({ env }: Pick<CliIo, 'env'>): Option {
  return new Option('--config <file>', 'path of the configuration file, or the variable SIDECAR_CONFIG').default(
    defaultConfig(env),
  );
}

/**
 * The option `--actor`, for a user account that several people share. Its value is checked when it is used, because it may come from the
 * environment.
 */
export function actorOption({ env }: Pick<CliIo, 'env'>): Option {
  return new Option(
    '--actor <name>',
    'name in the audit trail (default: the variable SIDECAR_ACTOR, or the user name)',
  ).default(env['SIDECAR_ACTOR']);
}

/** The argument for the account that a command works on. @param usage the argument's name in the help text */
export function accountArgument(usage: '<account>' | '<id>'): Argument {
  return new Argument(usage, 'the id of the account').argParser(readAs(identifier));
}

/** The option `--environment`, which has no default. */
export function environmentOption(): Option {
  return new Option('--environment <environment>', 'environment that the command applies to')
    .choices(environmentNames)
    .makeOptionMandatory();
}

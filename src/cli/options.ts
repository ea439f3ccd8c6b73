import { Argument, InvalidArgumentError, Option } from 'commander';
import { identifier } from '../accounts/value-types.ts';
import { environmentNames } from '../accounts/api-key.ts';
import { parseAs, WrongValue, type ValueType } from '../input/value-types.ts';
import { capitalised } from '../input/text-value.ts';
import { defaultConfig, type CliIo } from './io.ts';

/** Reads an argument or an option as a value of a type of the configuration; invalid text counts as wrong usage. */
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

/** `--config`, for every command that works on a configuration. */
export function configOption({ env }: Pick<CliIo, 'env'>): Option {
  return new Option('--config <file>', 'path of the configuration file, or the variable SIDECAR_CONFIG').default(
    defaultConfig(env),
  );
}

/** `--actor`, for a user that several people share. Checked when it is used, because it may come from the environment. */
export function actorOption({ env }: Pick<CliIo, 'env'>): Option {
  return new Option(
    '--actor <name>',
    'name in the audit trail (default: the variable SIDECAR_ACTOR, or the user name)',
  ).default(env['SIDECAR_ACTOR']);
}

/** The account that a command works on. @param usage its name in help */
export function accountArgument(usage: '<account>' | '<id>'): Argument {
  return new Argument(usage, 'the id of the account').argParser(readAs(identifier));
}

/** `--environment`, which has no default. */
export function environmentOption(): Option {
  return new Option('--environment <environment>', 'environment that the command applies to')
    .choices(environmentNames)
    .makeOptionMandatory();
}

import { Argument, InvalidArgumentError, Option } from 'commander';
import { identifier } from '../accounts/file/schema.ts';
import { environmentNames } from '../accounts/api-key.ts';
import type { Kind } from '../yaml/kinds.ts';

/** Reads an argument or an option as a value of the configuration's kinds; what is not as expected is wrong usage. */
export function readAs<T>(kind: Kind<T>): (text: string) => T {
  return (text) => {
    const value = kind.pattern.test(text) ? kind.read(text) : undefined;
    if (value === undefined) throw new InvalidArgumentError(`Expected ${kind.expected}.`);
    return value;
  };
}

/** The account that a command is about. @param usage as help names it, in angle brackets */
export function accountArgument(usage: '<account>' | '<id>'): Argument {
  return new Argument(usage, 'the id of the account').argParser(readAs(identifier));
}

/** `--environment`, which is never guessed. */
export function environmentOption(): Option {
  return new Option('--environment <environment>', 'where it is valid').choices(environmentNames).makeOptionMandatory();
}

import { InvalidArgumentError } from 'commander';
import type { Kind } from '../yaml/kinds.ts';
import { WrongValue } from '../yaml/wrong-value.ts';

/** Reads an argument or an option as a value of the configuration's kinds; what is not as expected is wrong usage. */
export function readAs<T>(kind: Kind<T>): (text: string) => T {
  return (text) => {
    try {
      const value = kind.pattern.test(text) ? kind.read(text) : undefined;
      if (value !== undefined) return value;
    } catch (error) {
      if (!(error instanceof WrongValue)) throw error;
      throw new InvalidArgumentError(error.message);
    }
    throw new InvalidArgumentError(`Expected ${kind.expected}.`);
  };
}

import { InvalidArgumentError } from 'commander';
import { duration, within, type Kind } from '../yaml/kinds.ts';
import { WrongValue } from '../yaml/wrong-value.ts';

/** Ten years: longer is a mistake of the unit. */
export const lifetime = within(duration, 1_000, 3_650 * 86_400_000, 'from 1s to 3650d');
export const overlap = within(duration, 0, 365 * 86_400_000, 'up to 365d');
export const grace = within(duration, 1_000, 365 * 86_400_000, 'from 1s to 365d');

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

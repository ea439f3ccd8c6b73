import { describe } from 'vitest';
import { describeWithPostgres, usePostgres, type TestPostgres } from './postgres.ts';

/** The master key of the stores that tests create, in base64. */
export const masterKey = Buffer.alloc(32, 7).toString('base64');

/** Another master key, in base64. */
export const otherMasterKey = Buffer.alloc(32, 2).toString('base64');

/** Creates an empty store. Returns the member `accounts` of a sidecar.yaml. */
export type NewStore = () => Promise<object>;

/** A store in the file `accounts.yaml`, which the test creates next to the sidecar.yaml. */
export const newFile: NewStore = async () => ({ file: 'accounts.yaml', masterKey });

/** A store in a database of its own. */
export const newDatabase =
  (postgres: TestPostgres): NewStore =>
  async () => ({ postgres: { url: await postgres.createDatabase(), masterKey } });

/** Describes tests that apply to each kind of store. Without PostgreSQL, the tests that need it are skipped. */
export function describeOnEachStore(name: string, tests: (newStore: NewStore) => void): void {
  describe(`${name}, with accounts in a file`, () => {
    tests(newFile);
  });
  describeWithPostgres(`${name}, with accounts in PostgreSQL`, () => {
    tests(newDatabase(usePostgres()));
  });
}

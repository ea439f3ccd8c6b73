import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { everyFeature } from '../../trials/load/every-feature.ts';

/** The parts of a JSON Schema that describe members. */
interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
}

/** Members that the trials do not set, and why. */
const leftOut: Readonly<Record<string, string>> = {
  'operators.token': 'excludes tokens, which can say more',
  'accounts.file': 'excludes postgres; the trials of restarts use it',
  'accounts.masterKey': 'belongs to accounts.file',
  audit: 'a signed trail has tests of its own',
  'accounts.postgres.masterKey.test': 'the trials have one master key for both environments',
  'accounts.postgres.masterKey.live': 'as the one for test',
  kms: 'a sidecar that has started does not use it',
  keys: 'bounds only what operators issue',
  'operators.tokens.environment': 'is for the role core, whose endpoint has tests of its own',
  'environments.test.upstream.authorization': 'live has it: both ways of forwarding are tried',
};

/**
 * The paths of members that the schema has and the value lacks. Of the members of a list's items, these are only the ones that all items
 * lack.
 */
function unset(schema: Schema, values: readonly unknown[], path = ''): string[] {
  const objects = [schema, ...(schema.anyOf ?? [])];
  const members = objects.flatMap(({ properties }) => Object.entries(properties ?? {}));
  // `file` is skipped, because any text can be replaced with a reference to a file.
  return members
    .filter(([name]) => !(name === 'file' && path !== 'accounts.'))
    .flatMap(([name, member]) => {
      const inner = values.flatMap((value) => (value as Record<string, unknown>)[name] ?? []);
      if (inner.length === 0 && !isEmptyList(values, name)) return [`${path}${name}`];
      return unset(member.items ?? member, inner.filter(isObject), `${path}${name}.`);
    });
}

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null;
const isEmptyList = (values: readonly unknown[], name: string): boolean =>
  values.some((value) => Array.isArray((value as Record<string, unknown>)[name]));

test('fuzzing and soak run with every member of the configuration set', () => {
  const certificate = { cert: 'certificate', key: 'key' };
  const backing = {
    ca: 'ca',
    server: certificate,
    client: certificate,
    otlp: 'http://127.0.0.1:4318',
    traceBatches: () => 0,
    databaseOf: () => Promise.resolve(''),
  };
  const timeouts = { connect: '1s', header: '1s', request: '1s', upstream: '1s', idle: '1s', drain: '1s' };
  const file = everyFeature(backing, {
    core: 'https://127.0.0.1:3000',
    accounts: { database: 'postgres:///accounts' },
    tls: true,
    timeouts,
  });
  const schema = JSON.parse(readFileSync('config/sidecar.schema.json', 'utf8')) as Schema;
  expect(unset(schema, [file]).toSorted()).toEqual(Object.keys(leftOut).toSorted());
});

import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { formatFileProblem } from '../../src/yaml/file-problem.ts';
import { filesIn } from './files.ts';

const [one, other] = ['01'.repeat(32), '02'.repeat(32)];
const url = 'postgres://sidecar@db.internal/accounts';

/** Loads a configuration. Returns its master keys, or its problems without the path of the file. */
function load(accounts: string, environments: readonly string[] = ['test']): unknown {
  const served = environments.map((name) => `${name}: { hosts: [${name}.example], upstream: "http://127.0.0.1:3000" }`);
  const sidecar = `listen: {}\nenvironments: { ${served.join(', ')} }\naccounts: ${accounts}\n`;
  const directory = filesIn({
    'sidecar.yaml': sidecar,
    'accounts.yaml': 'accounts: []\n',
    one,
    both: `${one}\n${other}`,
  });
  const loaded = loadConfig(join(directory, 'sidecar.yaml'), { OTHER: other });
  if (loaded.ok) return loaded.config.store.masterKeys.map(({ kcv, environment }) => `${environment} ${kcv}`);
  return loaded.problems.map((problem) => formatFileProblem(problem).replace(/^.*sidecar\.yaml:/, ''));
}

const both = ['test', 'live'];
const [kcv, otherKcv] = ['af9c537de1', 'cbda877b5e'];

describe.each([
  ['in a file', (masterKey: string) => `{ file: accounts.yaml, masterKey: ${masterKey} }`, ''],
  ['in PostgreSQL', (masterKey: string) => `{ postgres: { url: "${url}", masterKey: ${masterKey} } }`, 'postgres.'],
])('the master keys of accounts %s', (_, accounts, below) => {
  /** The column in which the value of `masterKey` begins. */
  const column = 'accounts: '.length + accounts('').lastIndexOf('masterKey: ') + 'masterKey: '.length + 1;
  const load1 = (masterKey: string, environments?: readonly string[]): unknown =>
    load(accounts(masterKey), environments);

  test('are for both environments, or each for one', () => {
    expect(load1(`"${one}"`)).toEqual([`undefined ${kcv}`]);
    expect(load1('{ file: both }')).toEqual([`undefined ${kcv}`, `undefined ${otherKcv}`]);
    expect(load1('{ test: { file: one }, live: "${OTHER}" }', both)).toEqual([`test ${kcv}`, `live ${otherKcv}`]);
    expect(load1('{ live: "${OTHER}", test: { file: one } }', both)).toEqual([`test ${kcv}`, `live ${otherKcv}`]);
  });

  test('are needed for the environments that are served, and no others', () => {
    expect(load1('{ test: { file: one } }')).toEqual([`test ${kcv}`]);
    expect(load1('{ test: { file: one }, live: "${OTHER}" }', ['live'])).toEqual([`test ${kcv}`, `live ${otherKcv}`]);
    const member = `accounts.${below}masterKey`;
    expect(load1('{ test: { file: one } }', both)).toEqual([
      expect.stringMatching(`^3:\\d+  ${member}.live  missing: this sidecar serves live$`),
    ]);
    expect(load1('{}')).toEqual([`3:${column}  ${member}  expected "test", "live" or both`]);
  });

  test('may not be the same in both environments, nor be anything other than keys', () => {
    const member = `accounts.${below}masterKey`;
    const same = `3:${column + '{ test: { file: one }, live: '.length}  ${member}.live  the same key as in "test": each environment needs its own`;
    expect(load1('{ test: { file: one }, live: { file: both } }')).toEqual([same]);
    const expected = 'expected 32 bytes in base64 or hex; further lines are older keys, which only unwrap';
    expect(load1('{ test: 5ecret }')).toEqual([`3:${column + '{ test: '.length}  ${member}.test  ${expected}`]);
    expect(load1('{ file: none }')).toEqual([`3:${column}  ${member}  cannot read the file: it does not exist`]);
    expect(load1('{ prod: 5ecret }')).toEqual([expect.stringContaining(`${member}.prod`)]);
    expect(load1('[]')).toEqual([`3:${column}  ${member}  ${expected}; or members "test" and "live"`]);
  });
});

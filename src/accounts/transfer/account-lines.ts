import { DuplicateMember, parseJson } from '../../input/json.ts';
import { formatPath, type MemberPath } from '../../input/member-path.ts';
import { valuesIn } from '../../yaml/values.ts';
import { WrongValue } from '../../input/value-types.ts';
import { accountsIn } from '../file/read.ts';
import { accountsSchema } from '../file/schema.ts';
import type { StoredAccount } from '../store.ts';
import type { Vault } from '../vault.ts';
import { csvRecords } from './csv.ts';
import { tooLong } from './lines.ts';

/** An account that was read, or its problems. */
export interface AccountLine {
  /** The number of the line, from 1. */
  readonly line: number;
  readonly account: StoredAccount | undefined;
  /** Each problem has the form `path  message` and quotes no values. */
  readonly problems: readonly string[];
}

/**
 * Reads accounts from NDJSON: one account per line, with the same members as in the accounts file. References to other files and to
 * environment variables are not followed.
 */
export async function* ndjsonAccounts(
  lines: AsyncIterable<string | undefined>,
  vault: Vault,
): AsyncIterable<AccountLine> {
  const read = accountReader(vault);
  let line = 0;
  for await (const text of lines) {
    line += 1;
    if (text === undefined) {
      yield { line, account: undefined, problems: [`.  ${tooLong}`] };
      continue;
    }
    if (text.trim() === '') continue;
    let value: unknown;
    try {
      value = parseJson(text);
    } catch (error) {
      const problem = error instanceof DuplicateMember ? error.message : 'not JSON: expected one account per line';
      yield { line, account: undefined, problems: [`.  ${problem}`] };
      continue;
    }
    yield { line, ...read(value) };
  }
}

/**
 * Reads accounts from CSV. The first line contains the paths of members, such as `id`, `keys.0.sha256` and `encryption.live.iv`. Every
 * other line is an account. An empty cell means that the member is missing.
 */
export async function* csvAccounts(lines: AsyncIterable<string | undefined>, vault: Vault): AsyncIterable<AccountLine> {
  const read = accountReader(vault);
  let paths: readonly (readonly string[])[] | undefined;
  for await (const record of csvRecords(lines)) {
    const { line } = record;
    if ('problem' in record) {
      yield { line, account: undefined, problems: [`.  ${record.problem}`] };
      if (paths === undefined || record.isLast) return;
      continue;
    }
    const { cells } = record;
    if (paths === undefined) {
      const names = cells.map((name) => name.trim());
      const problem = describeProblems(names);
      paths = names.map((name) => name.split('.'));
      if (problem === undefined) continue;
      yield { line, account: undefined, problems: [problem] };
      return;
    } else if (cells.length !== paths.length) {
      yield { line, account: undefined, problems: [`.  expected ${paths.length} cells, as in the first line`] };
    } else {
      yield { line, ...read(nested(paths, cells)) };
    }
  }
}

/** Returns a function that reads a single account by the rules of the accounts file. */
function accountReader(vault: Vault): (value: unknown) => Omit<AccountLine, 'line'> {
  const files = {
    read: (): string => {
      throw new WrongValue('expected the value itself, not a reference to a file');
    },
  };
  const schema = accountsSchema(valuesIn({ directory: '', files }, {}));
  return (value) => {
    const problems = new Map<string, string>();
    // The account is read as a file that contains only this account. Problems are reported with paths within the account.
    const formatName = (path: MemberPath): string => formatPath(path.slice(2));
    const source = {
      value: { accounts: [value] },
      report: (path: MemberPath, message: string): void => {
        if (!problems.has(formatName(path))) problems.set(formatName(path), message.replaceAll('accounts[0].', ''));
      },
      isWrong: (path: MemberPath): boolean => problems.has(formatName(path)),
      warn: (): void => {},
    };
    const [account] = accountsIn(source, schema, vault).accounts;
    if (problems.size === 0 && account !== undefined) return { account, problems: [] };
    return { account: undefined, problems: [...problems].map(([path, message]) => `${path}  ${message}`) };
  };
}

/** The mistake in the header line; undefined if there is none. The message quotes no cells, because the line may actually be an account. */
function describeProblems(names: readonly string[]): string | undefined {
  const wrong = names.findIndex((name) => !memberPath.test(name));
  if (wrong !== -1) return `.  column ${wrong + 1}: expected the path of a member`;
  // For each path, the column that names it.
  const named = new Map<string, number>();
  // For each path, the first column that names it or a path inside it.
  const entered = new Map<string, number>();
  for (const [i, name] of names.entries()) {
    const steps = name.split('.');
    const around = steps.map((_, depth) => steps.slice(0, depth + 1).join('.'));
    const other = entered.get(name) ?? around.map((path) => named.get(path)).find((column) => column !== undefined);
    if (other !== undefined) {
      return `.  column ${i + 1}: names the same member as column ${other + 1}, or one inside the other`;
    }
    named.set(name, i);
    for (const path of around) if (!entered.has(path)) entered.set(path, i);
  }
  return undefined;
}

/** Matches the path of a member. No member of an account is nested more deeply than the pattern allows. */
const memberPath = /^[A-Za-z0-9]{1,20}(?:\.[A-Za-z0-9]{1,20}){0,5}$/;

interface Members {
  [name: string]: unknown;
}

/** Builds an object with the cells as members at these paths. No path may be inside another. */
function nested(paths: readonly (readonly string[])[], cells: readonly string[]): Members {
  const root: Members = {};
  for (const [i, path] of paths.entries()) {
    const text = cells[i] ?? '';
    if (text === '') continue;
    const last = path.at(-1) ?? '';
    let parent = root;
    for (const step of path.slice(0, -1)) {
      // Only own members count, because a column may have the name of an inherited member.
      if (!Object.hasOwn(parent, step)) parent[step] = {};
      parent = parent[step] as Members;
    }
    parent[last] = (last === 'active' || last === 'enabled') && /^(?:true|false)$/.test(text) ? text === 'true' : text;
  }
  return withLists(root);
}

/** Converts nested objects to lists if all their members are indexes. */
function withLists(members: Members): Members {
  return Object.fromEntries(
    Object.entries(members).map(([name, value]) => {
      if (typeof value !== 'object') return [name, value];
      const inner = withLists(value as Members);
      const isList = Object.keys(inner).every((step) => /^(?:0|[1-9][0-9]{0,2})$/.test(step));
      return [name, isList ? Object.assign([], inner) : inner];
    }),
  );
}

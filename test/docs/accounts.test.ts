import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { problems } from '../../src/operators/problems.ts';

const page = readFileSync('docs/accounts.md', 'utf8');

test('the page lists every error of the API with its status, and no others', () => {
  const rows = [...page.matchAll(/^- <a id="(\w+)"><\/a>`(\w+)` \((\d+)\): /gm)];
  for (const [, anchor, code] of rows) expect(anchor).toBe(code);
  expect(Object.fromEntries(rows.map(([, , code, status]) => [code, Number(status)]))).toEqual(
    Object.fromEntries(Object.entries(problems).map(([code, { status }]) => [code, status])),
  );
});

test('the page lists every change that a sidecar logs, and no others', () => {
  const [, union = ''] = /readonly change:\n([^;]*);/.exec(readFileSync('src/accounts/differences.ts', 'utf8')) ?? [];
  const logged = [...union.matchAll(/'(\w+)'/g)].map(([, change = '']) => change);
  expect(logged.length).toBeGreaterThan(10);
  const [, list = ''] = /`change`\s+is\s(.*?)\.\s+A\s+reload/s.exec(page) ?? [];
  expect([...list.matchAll(/`(\w+)`/g)].map(([, change = '']) => change).toSorted()).toEqual(logged.toSorted());
});

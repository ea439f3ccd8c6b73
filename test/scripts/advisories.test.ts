import { describe, expect, test } from 'vitest';
import { compareVersions, findVulnerable, type Advisories } from '../../scripts/advisories.ts';

/** Advisories on `express` versions: from 1.0.0 to before 1.2.0, from 2.0.0-beta.2 to 2.0.5 inclusive, and 3.1.4. */
function known(more: { readonly accepted?: Record<string, string>; readonly withdrawn?: string } = {}): Advisories {
  const { accepted = {}, ...rest } = more;
  const ranges = [
    {
      type: 'SEMVER',
      events: [{ introduced: '1.0.0' }, { fixed: '1.2.0' }, { introduced: '2.0.0-beta.2' }, { last_affected: '2.0.5' }],
    },
  ];
  const affected = [{ package: { ecosystem: 'npm', name: 'express' }, versions: ['3.1.4'], ranges }];
  return { date: '2026-11-01', accepted, advisories: [{ id: 'GHSA-1', summary: 'leaks', affected, ...rest }] };
}

const locked = (version: string, name = 'express') => new Map([[`node_modules/x/node_modules/${name}`, { version }]]);

describe('a locked package', () => {
  test.each(['1.0.0', '1.1.99', '2.0.0-beta.2', '2.0.0', '2.0.5', '3.1.4'])('is vulnerable as %s', (version) => {
    expect(findVulnerable(locked(version), known())).toEqual([`express@${version}: GHSA-1 leaks`]);
  });

  test.each(['0.9.9', '1.0.0-rc.1', '1.2.0', '1.10.0', '2.0.0-beta.1', '2.0.6', '3.1.3', '3.1.5'])(
    'is not vulnerable as %s',
    (version) => {
      expect(findVulnerable(locked(version), known())).toEqual([]);
    },
  );

  test('is not vulnerable because of an advisory that is on another package, withdrawn or accepted', () => {
    expect(findVulnerable(locked('1.0.0', 'express-x'), known())).toEqual([]);
    expect(findVulnerable(locked('1.0.0'), known({ withdrawn: '2026-11-02T00:00:00Z' }))).toEqual([]);
    expect(findVulnerable(locked('1.0.0'), known({ accepted: { 'GHSA-1': 'is not called' } }))).toEqual([]);
  });
});

test('versions are in the order of Semantic Versioning', () => {
  const ordered =
    '1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0 1.0.1 1.2.0 1.10.0'.split(
      ' ',
    );
  expect(ordered.toReversed().toSorted(compareVersions)).toEqual(ordered);
  expect(compareVersions('1.0.0+build.1', '1.0.0')).toBe(0);
});

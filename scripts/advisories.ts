import { nameOf, type LockedPackage } from './run-time-packages.ts';

/** An advisory on known vulnerabilities: the parts of an OSV document (ossf.github.io/osv-schema) that are read here. */
export interface Advisory {
  readonly id: string;
  readonly summary?: string;
  readonly withdrawn?: string;
  readonly affected: readonly {
    readonly package: { readonly ecosystem: string; readonly name: string };
    readonly versions?: readonly string[];
    readonly ranges?: readonly {
      readonly type: string;
      readonly events: readonly Readonly<Record<string, string>>[];
    }[];
  }[];
}

/** The contents of scripts/advisories.json. */
export interface Advisories {
  /** The date of the data, such as 2026-11-23; null if there is none yet. */
  readonly date: string | null;
  /** The reasons why advisories do not concern the sidecar, by the advisory's id. */
  readonly accepted: Readonly<Record<string, string>>;
  readonly advisories: readonly Advisory[];
}

/** A line for each locked package that an advisory concerns, unless the advisory was accepted. */
export function findVulnerable(packages: ReadonlyMap<string, LockedPackage>, known: Advisories): string[] {
  const open = known.advisories.filter(({ id, withdrawn }) => withdrawn === undefined && !(id in known.accepted));
  const lines = [...packages].flatMap(([folder, { version }]) =>
    open
      .filter((advisory) => concerns(advisory, nameOf(folder), version))
      .map(({ id, summary = '' }) => `${nameOf(folder)}@${version}: ${id} ${summary}`.trim()),
  );
  return [...new Set(lines)];
}

/** Whether an advisory concerns this version of an npm package. */
function concerns({ affected }: Advisory, name: string, version: string): boolean {
  return affected
    .filter((each) => each.package.ecosystem === 'npm' && each.package.name === name)
    .some(
      ({ versions = [], ranges = [] }) =>
        versions.includes(version) || ranges.some(({ type, events }) => type === 'SEMVER' && isWithin(version, events)),
    );
}

/** The events are ordered. Versions are affected from each `introduced` on, up to the next `fixed` or `last_affected`. */
function isWithin(version: string, events: readonly Readonly<Record<string, string>>[]): boolean {
  let within = false;
  for (const { introduced, fixed, last_affected: last } of events) {
    if (introduced !== undefined && (introduced === '0' || compareVersions(version, introduced) >= 0)) within = true;
    if (fixed !== undefined && compareVersions(version, fixed) >= 0) within = false;
    if (last !== undefined && compareVersions(version, last) > 0) within = false;
  }
  return within;
}

/** Compares semantic versions. The result is below 0 if `a` is older than `b`. */
export function compareVersions(a: string, b: string): number {
  const [ours, theirs] = [partsOf(a), partsOf(b)];
  for (const i of [0, 1, 2]) {
    const difference = Number(ours.numbers[i] ?? 0) - Number(theirs.numbers[i] ?? 0);
    if (difference !== 0) return difference;
  }
  // A pre-release is older than its release.
  if (ours.identifiers.length === 0 || theirs.identifiers.length === 0) {
    return theirs.identifiers.length - ours.identifiers.length;
  }
  for (const [i, identifier] of ours.identifiers.entries()) {
    const other = theirs.identifiers[i];
    if (other === undefined) return 1;
    const order = compareIdentifiers(identifier, other);
    if (order !== 0) return order;
  }
  return ours.identifiers.length - theirs.identifiers.length;
}

function partsOf(version: string): { readonly numbers: readonly string[]; readonly identifiers: readonly string[] } {
  const [, release = '', pre] = /^v?([^-+]*)(?:-([^+]*))?/.exec(version) ?? [];
  return { numbers: release.split('.'), identifiers: pre?.split('.') ?? [] };
}

function compareIdentifiers(a: string, b: string): number {
  const [isNumber, isOther] = [/^\d+$/.test(a), /^\d+$/.test(b)];
  if (isNumber && isOther) return Number(a) - Number(b);
  if (isNumber !== isOther) return isNumber ? -1 : 1;
  return a < b ? -1 : Number(a > b);
}

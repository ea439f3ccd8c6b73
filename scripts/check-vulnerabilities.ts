/**
 * Compares package-lock.json with the advisories in scripts/advisories.json, without using the network. The exit code is 1 if a package is
 * vulnerable. `node scripts/check-vulnerabilities.ts FOLDER` first copies the relevant advisories from a folder of OSV files.
 */
import { globSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findVulnerable, type Advisories, type Advisory } from './advisories.ts';
import { lockedPackages, nameOf } from './run-time-packages.ts';

const file = fileURLToPath(new URL('advisories.json', import.meta.url));

/** The age, in days, above which there is a warning that the data is old. */
const maxAge = 30;

const [folder] = process.argv.slice(2);
if (folder !== undefined) takeOver(folder);
const known = JSON.parse(readFileSync(file, 'utf8')) as Advisories;
const packages = lockedPackages();
const vulnerable = findVulnerable(packages, known);
for (const line of vulnerable) console.error(`vulnerable: ${line}`);
if (known.date === null) {
  console.error('warning: there is no data on vulnerabilities (scripts/advisories.json): nothing was compared');
} else {
  const age = (Date.now() - Date.parse(known.date)) / 86_400_000;
  const old = age > maxAge ? 'warning: old data, ' : '';
  console.error(`${old}${packages.size} packages compared with the advisories of ${known.date}`);
}
process.exitCode = vulnerable.length > 0 ? 1 : 0;

/** Stores the advisories on packages in the lock file, with the date of the newest file. */
function takeOver(from: string): void {
  const names = new Set([...lockedPackages().keys()].map(nameOf));
  const files = globSync('**/*.json', { cwd: from }).map((each) => join(from, each));
  if (files.length === 0) throw new Error(`there are no OSV files in ${from}`);
  const advisories = files
    .map((each) => JSON.parse(readFileSync(each, 'utf8')) as Advisory)
    .filter(({ affected }) => affected.some(({ package: { name } }) => names.has(name)))
    .map(({ id, summary, withdrawn, affected }) => ({ id, summary, withdrawn, affected }));
  const date = new Date(Math.max(...files.map((each) => statSync(each).mtimeMs))).toISOString().slice(0, 10);
  const { accepted } = JSON.parse(readFileSync(file, 'utf8')) as Advisories;
  writeFileSync(file, `${JSON.stringify({ date, accepted, advisories }, null, 2)}\n`);
}

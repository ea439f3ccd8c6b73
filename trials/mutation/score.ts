import type { Table } from '../../bench/table.ts';

/** The result for one mutant, as StrykerJS reports it. */
export interface Result {
  readonly fileName: string;
  readonly mutatorName: string;
  readonly replacement: string;
  readonly status: 'Killed' | 'Timeout' | 'Survived' | 'NoCoverage' | 'RuntimeError' | 'CompileError' | 'Ignored';
  readonly location: { readonly start: { readonly line: number; readonly column: number } };
}

/** The results of a run. */
export interface Score {
  /** The percentage of tried mutants that a test noticed. */
  readonly percent: number;
  /** The score of each folder. */
  readonly table: Table;
  /** A line for each mutant that no test noticed. */
  readonly survivors: readonly string[];
}

/** @param planned the number of mutants to try; the time may not have been enough for all of them */
export function scoreOf(results: readonly Result[], planned: number): Score {
  // Some mutants say nothing about the tests: those that fail before a test runs, and those in code that runs only
  // while a file is loaded.
  const tried = results.filter(({ status }) => !['Ignored', 'RuntimeError', 'CompileError'].includes(status));
  const folders = [...new Set(tried.map(({ fileName }) => folderOf(fileName)))].toSorted();
  const rows = folders.map((folder) => {
    return rowOf(
      `\`${folder}\``,
      tried.filter(({ fileName }) => folderOf(fileName) === folder),
    );
  });
  const survivors = tried.filter((result) => !isNoticed(result)).map(lineOf);
  return {
    percent: percentOf(tried),
    table: [
      ['', 'Tried', 'Noticed', 'Survived', 'Reached by no test', 'Score'],
      ...rows,
      rowOf(planned > results.length ? `together, ${planned - results.length} more not tried` : 'together', tried),
    ],
    survivors: survivors.toSorted(),
  };
}

function rowOf(name: string, tried: readonly Result[]): string[] {
  const count = (status: Result['status']): string => String(tried.filter((result) => result.status === status).length);
  const noticed = String(tried.filter(isNoticed).length);
  const score = `${percentOf(tried).toFixed(1)} %`;
  return [name, String(tried.length), noticed, count('Survived'), count('NoCoverage'), score];
}

function percentOf(tried: readonly Result[]): number {
  return (tried.filter(isNoticed).length / tried.length) * 100;
}

function isNoticed({ status }: Result): boolean {
  return status === 'Killed' || status === 'Timeout';
}

function folderOf(file: string): string {
  return file.slice(0, file.lastIndexOf('/'));
}

function lineOf({ fileName, location, mutatorName, replacement, status }: Result): string {
  const { line, column } = location.start;
  const to = replacement.replaceAll(/\s+/g, ' ').slice(0, 80);
  return `${fileName}:${line}:${column} ${mutatorName}: ${to}${status === 'NoCoverage' ? ' (reached by no test)' : ''}`;
}

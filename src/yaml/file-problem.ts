import { displayName } from './files.ts';

/** A problem with a file, and where to correct it. It never contains a value, which could be a secret. */
export interface FileProblem {
  /** The path of the file, relative to the working directory if the file is below it. */
  readonly file: string;
  /** Counted from 1, like `column`. */
  readonly line: number;
  readonly column: number;
  /** The member concerned, as in `routes[1].methods[0]`; `.` for the file as a whole. */
  readonly path: string;
  /** Says what is wrong and what is expected. */
  readonly message: string;
}

/** A problem with a file as a whole, or with a member whose position in the file is not known. */
export function problemWithFile(file: string, message: string, path = '.'): FileProblem {
  return { file: displayName(file), line: 1, column: 1, path, message };
}

/** Formats a problem as `file:line:column  path  message`, the form that compilers use and editors make clickable. */
export function formatFileProblem({ file, line, column, path, message }: FileProblem): string {
  return `${file}:${line}:${column}  ${path}  ${message}`;
}

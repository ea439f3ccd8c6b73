import { displayName } from './files.ts';

/** Something wrong with a file, at the place to correct. Never contains a value, which could be a secret. */
export interface FileProblem {
  /** Relative to the working directory if the file is below it. */
  readonly file: string;
  /** From 1, like `column`. */
  readonly line: number;
  readonly column: number;
  /** The member concerned, as in `routes[1].methods[0]`; `.` for the file as a whole. */
  readonly path: string;
  /** Says what is wrong and what is expected. */
  readonly message: string;
}

/** A problem with a file as a whole, or with a member whose place in it is not known. */
export function problemWithFile(file: string, message: string, path = '.'): FileProblem {
  return { file: displayName(file), line: 1, column: 1, path, message };
}

/** `file:line:column  path  message`, the form that compilers use and editors make clickable. */
export function formatFileProblem({ file, line, column, path, message }: FileProblem): string {
  return `${file}:${line}:${column}  ${path}  ${message}`;
}

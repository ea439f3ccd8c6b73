import { dirname } from 'node:path';
import { displayName, type Files } from './files.ts';
import { formatPath, type MemberPath } from '../input/member-path.ts';
import type { FileProblem } from './file-problem.ts';
import { parseYaml, type ParsedYaml } from './syntax.ts';

/** A YAML file and its problems. */
export class YamlFile {
  /** The folder that paths in the file are relative to. */
  readonly directory: string;
  readonly files: Files;
  readonly text: string;
  /** The content as plain values; undefined if the file is empty or broken. */
  readonly value: unknown;
  readonly #name: string;
  readonly #parsed: ParsedYaml;
  readonly #problems: FileProblem[] = [];
  readonly #warnings: FileProblem[] = [];
  readonly #reported = new Set<string>();

  /**
   * Reads and parses the file.
   *
   * @param text the content, if it is already known; by default, it is read from the file
   * @throws WrongValue if the file cannot be read
   */
  constructor(path: string, files: Files, directory: string = dirname(path), text: string = files.read(path)) {
    this.directory = directory;
    this.files = files;
    this.text = text;
    this.#name = displayName(path);
    this.#parsed = parseYaml(text);
    this.value = this.#parsed.value;
    for (const { offset, path, message } of this.#parsed.problems) {
      this.#reported.add(JSON.stringify(path));
      this.#problems.push(this.#problemFrom(offset, path, message));
    }
  }

  /** The problems that were reported, sorted by position. */
  get problems(): readonly FileProblem[] {
    return inOrder(this.#problems);
  }

  /** Warnings about content that is valid but probably a mistake, sorted by position. */
  get warnings(): readonly FileProblem[] {
    return inOrder(this.#warnings);
  }

  /** Records a problem with the member at `path`, or with its name. */
  report(path: MemberPath, message: string, part: 'name' | 'value' = 'value'): void {
    // Further problems with the same member would only be consequences of the first.
    if (this.isWrong(path)) return;
    this.#reported.add(JSON.stringify(path));
    this.#problems.push(this.problemAt(path, message, part));
  }

  /** As in `ParsedYaml`. */
  findItemLines(name: string): readonly number[] | undefined {
    return this.#parsed.findItemLines(name);
  }

  /** Whether a problem with this member was reported. If so, the member is absent from the valid content even if it is in the file. */
  isWrong(path: MemberPath): boolean {
    return this.#reported.has(JSON.stringify(path));
  }

  /** Whether a problem with this member or one of its members was reported. */
  isWrongWithin(path: MemberPath): boolean {
    const within = JSON.stringify(path).slice(0, -1);
    return [...this.#reported].some(
      (reported) => reported.startsWith(`${within}]`) || reported.startsWith(`${within},`),
    );
  }

  /** Records a warning about the member at `path`. */
  warn(path: MemberPath, message: string): void {
    this.#warnings.push(this.problemAt(path, `warning: ${message}`));
  }

  /** Creates a problem for the member at `path`, without adding it to the problems of the file. */
  problemAt(path: MemberPath, message: string, part: 'name' | 'value' = 'value'): FileProblem {
    return this.#problemFrom(this.#parsed.findOffset(path, part), path, message);
  }

  #problemFrom(offset: number, path: MemberPath, message: string): FileProblem {
    const { line, col } = this.#parsed.locate(offset);
    return { file: this.#name, line, column: col, path: formatPath(path), message };
  }
}

function inOrder(problems: readonly FileProblem[]): readonly FileProblem[] {
  return problems.toSorted((a, b) => a.line - b.line || a.column - b.column);
}

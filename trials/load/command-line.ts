import { parseArgs } from 'node:util';
import { asText, type Table } from '../../bench/table.ts';
import { withCleanUp, type Defer } from './stage.ts';

/** The result of a run. */
export interface Findings {
  readonly title: string;
  readonly tables: readonly Table[];
  /** The problems found; empty if there are none. */
  readonly problems: readonly string[];
}

/** The maximum number of problems that are printed. If there are more, only the number of the others is printed. */
const written = 20;

/**
 * Runs a command with one option, which sets the size of the run. Exit codes: 0 no problems, 1 problems, 2 wrong usage.
 */
export async function runCommandLine(
  option: string,
  fallback: number,
  run: (size: number, defer: Defer) => Promise<Findings>,
): Promise<void> {
  const size = sizeOf(option, fallback);
  if (size === undefined) {
    console.error(`takes --${option} N, a number above 0 (${fallback})`);
    process.exitCode = 2;
    return;
  }
  const { title, tables, problems } = await withCleanUp((defer) => run(size, defer));
  console.log(title);
  for (const table of tables) console.log(`\n${asText(table)}`);
  for (const problem of problems.slice(0, written)) console.log(`problem: ${problem}`);
  if (problems.length > written) console.log(`… and ${problems.length - written} more`);
  console.log(problems.length === 0 ? '\nno problems' : `\n${problems.length} problems`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}

function sizeOf(option: string, fallback: number): number | undefined {
  try {
    const { values } = parseArgs({ options: { [option]: { type: 'string', default: String(fallback) } } });
    const size = Number(values[option]);
    return size > 0 && Number.isFinite(size) ? size : undefined;
  } catch {
    return undefined;
  }
}

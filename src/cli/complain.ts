import type { Output } from './output.ts';
import { folded, terminalWidth, widthOf } from './text-width.ts';

const indent = '  ';

/**
 * Writes messages to stderr. On a terminal lines are broken between words (a path stays whole) and continuation lines
 * are indented; elsewhere they stay whole, for programs that search them. If stderr is closed, the command continues.
 *
 * @param text lines, with a newline at the end of each
 */
export async function complain({ stderr }: { readonly stderr: Output }, text: string): Promise<void> {
  try {
    await stderr.write(stderr.isTerminal ? text.split('\n').map(broken).join('\n') : text);
  } catch {
    // There is no other place to report it.
  }
}

function broken(line: string): string {
  if (widthOf(line) <= terminalWidth) return line;
  return folded(line, terminalWidth - indent.length).join(`\n${indent}`);
}

import type { Output } from './output.ts';
import { folded, widthOf } from './text-width.ts';

const indent = '  ';

/**
 * Writes messages to stderr. On a terminal lines are broken between words (a path stays whole) and continuation lines
 * are indented; elsewhere they stay whole, for programs that search them. If stderr is closed, the command continues.
 *
 * @param text lines, with a newline at the end of each
 */
export async function complain({ stderr }: { readonly stderr: Output }, text: string): Promise<void> {
  try {
    await stderr.write(broken(text, stderr.width));
  } catch {
    // There is no other place to report it.
  }
}

function broken(text: string, width: number): string {
  const fit = (line: string): string =>
    widthOf(line) <= width ? line : folded(line, width - indent.length).join(`\n${indent}`);
  return text.split('\n').map(fit).join('\n');
}

import type { Writable } from 'node:stream';
import { folded, terminalWidth, widthOf } from './text-width.ts';

const indent = '  ';

/**
 * Says on stderr what went wrong. On a terminal lines are broken between words (a path stays whole) and what goes on is
 * indented; elsewhere they stay whole, for programs that look for them.
 *
 * @param text lines, with a newline at the end of each
 */
export function complain({ stderr }: { readonly stderr: Writable & { readonly isTTY?: boolean } }, text: string): void {
  stderr.write(stderr.isTTY === true ? text.split('\n').map(broken).join('\n') : text);
}

function broken(line: string): string {
  if (widthOf(line) <= terminalWidth) return line;
  return folded(line, terminalWidth - indent.length).join(`\n${indent}`);
}

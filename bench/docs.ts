import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { blocks } from './blocks.ts';
import type { Report } from './report.ts';
import { project } from './sidecar.ts';
import { asMarkdown } from './table.ts';

const docs = join(project, 'docs');

/** Writes the results of a run between the markers of docs/performance.md. */
export async function writeDocs(report: Report): Promise<void> {
  const file = join(docs, 'performance.md');
  let page = readFileSync(file, 'utf8');
  for (const { name, content } of blocks) {
    const [how, ...rest] = content(report) ?? [];
    if (how === undefined) continue;
    const paragraphs = [`${circumstances(report)} ${String(how)}`.trim()];
    for (const part of rest) paragraphs.push(typeof part === 'string' ? part : asMarkdown(part));
    page = replaced(page, name, paragraphs.join('\n\n'));
  }
  writeFileSync(file, await format(page, { ...(await resolveConfig(file)), filepath: file }));
}

/** @throws if the page does not have these markers */
function replaced(page: string, name: string, content: string): string {
  const [begin, end] = [`<!-- begin ${name} -->`, `<!-- end ${name} -->`];
  const from = page.indexOf(begin);
  const to = page.indexOf(end);
  if (from === -1 || to === -1) throw new Error(`docs/performance.md has no markers for "${name}"`);
  return `${page.slice(0, from + begin.length)}\n\n${content}\n\n${page.slice(to)}`;
}

function circumstances({ date, machine }: Report): string {
  const versions = Object.entries(machine.versions).filter(([name]) => name !== 'wrk');
  const listed = versions.map(([name, version]) => `${name} ${version}`).join(', ');
  return `${date}, ${machine.cpu}, ${machine.cores} cores, ${machine.kernel}, ${listed}.`;
}

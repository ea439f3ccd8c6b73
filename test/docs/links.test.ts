import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, test } from 'vitest';

/** The pages of the project. */
const pages = globSync('**/*.md', { exclude: ['node_modules/**', 'dist/**', 'coverage/**'] }).toSorted();

function withoutCode(markdown: string): string {
  return markdown
    .replace(/^ *(```+|~~~+)[\s\S]*?^ *\1 *$/gm, '')
    .replace(/`[^`\n]*`/g, (code) => ' '.repeat(code.length));
}

/** The link and image targets on a page that point to project files or within the page. */
function relativeLinks(markdown: string): string[] {
  const text = withoutCode(markdown);
  const inline = [...text.matchAll(/\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g)];
  const references = [...text.matchAll(/^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?\s*$/gm)];
  return [...inline, ...references]
    .map(([, target = '']) => target)
    .filter((target) => !/^[a-z][a-z0-9+.-]*:/i.test(target));
}

/** The anchors of a page: explicit ones, and the ids that Markdown viewers derive from headings. */
function anchorsOf(markdown: string): Set<string> {
  const anchors = new Set<string>();
  const prose = markdown.replace(/^ *(```+|~~~+)[\s\S]*?^ *\1 *$/gm, '');
  for (const [, heading = ''] of prose.matchAll(/^#{1,6} +(.*?)(?: +#+)?$/gm)) {
    const plain = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll('`', '');
    const slug = plain
      .trim()
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\p{Pc} -]/gu, '')
      .replaceAll(' ', '-');
    let anchor = slug;
    for (let i = 1; anchors.has(anchor); i += 1) anchor = `${slug}-${i}`;
    anchors.add(anchor);
  }
  for (const [, id = ''] of prose.matchAll(/<a (?:id|name)="([^"]+)"/g)) anchors.add(id);
  return anchors;
}

/** The reason why a link on a page is broken; undefined if it is not. */
function broken(page: string, target: string): string | undefined {
  const [path = '', anchor] = decodeURIComponent(target).split('#');
  const file = path === '' ? page : normalize(join(path.startsWith('/') ? '.' : dirname(page), path));
  if (file.startsWith('..') || !existsSync(file)) return `${page}: ${target}: there is no ${file}`;
  if (anchor === undefined) return undefined;
  if (statSync(file).isDirectory() || !file.endsWith('.md')) return `${page}: ${target}: not a page with anchors`;
  return anchorsOf(readFileSync(file, 'utf8')).has(anchor) ? undefined : `${page}: ${target}: no such heading`;
}

describe('the documentation', () => {
  test('has no broken links', () => {
    const links = pages.flatMap((page) =>
      relativeLinks(readFileSync(page, 'utf8')).map((target) => ({ page, target })),
    );
    expect(links.length).toBeGreaterThan(20);
    expect(links.map(({ page, target }) => broken(page, target)).filter((problem) => problem !== undefined)).toEqual(
      [],
    );
  });

  test('has no page that cannot be reached from the README', () => {
    const reached = new Set(['README.md']);
    for (const page of reached) {
      for (const target of relativeLinks(readFileSync(page, 'utf8'))) {
        const file = normalize(join(dirname(page), target.split('#')[0] ?? ''));
        if (file.endsWith('.md') && existsSync(file)) reached.add(file);
      }
    }
    expect(pages.filter((page) => !reached.has(page))).toEqual([]);
  });
});

describe('the check of links', () => {
  test('finds links, but not in code', () => {
    const page =
      '[a](a.md) ![b](<b c.png>) `[x](x.md)` [d]: d.md\n```\n[x](x.md)\n```\n[e](e.md#f "title") [g](https://x)\n[h]: h.md\n';
    expect(relativeLinks(page)).toEqual(['a.md', 'e.md#f', 'h.md']);
  });

  test('derives anchors from headings', () => {
    const page =
      '# A `b_c` page\n## On, off & "why"?\n## A `b_c` page\n```\n# x\n```\n### [Link](x.md) · 2\n<a id="own"></a>\n';
    expect([...anchorsOf(page)]).toEqual(['a-b_c-page', 'on-off--why', 'a-b_c-page-1', 'link--2', 'own']);
  });

  test.each([
    ['a file that is not there', 'README.md', 'docs/missing.md'],
    ['a heading that is not there', 'README.md', 'docs/security.md#missing'],
    ['a file outside', 'README.md', '../x.md'],
    ['an anchor of something else', 'README.md', 'package.json#x'],
  ])('reports %s', (_, page, target) => {
    expect(broken(page, target)).toContain(target);
  });
});

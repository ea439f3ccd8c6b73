import { globSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { blocks } from '../../bench/blocks.ts';

const milliseconds = {
  µs: 1e-3,
  ms: 1,
  s: 1e3,
  second: 1e3,
  m: 6e4,
  minute: 6e4,
  h: 36e5,
  hour: 36e5,
  d: 864e5,
  day: 864e5,
};
const bytes = {
  B: 1,
  byte: 1,
  KiB: 1_024,
  MiB: 1_024 ** 2,
  GiB: 1_024 ** 3,
  Ki: 1_024,
  Mi: 1_024 ** 2,
  Gi: 1_024 ** 3,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
};
/** The nouns for things that trials and benchmarks count. */
const counted =
  'times|cases|lines|requests|responses|connections|envelopes|exchanges|accounts|keys|events|charges|mutants|faults|tests|megabytes';

const units = [...Object.keys(milliseconds), ...Object.keys(bytes)].join('|');
const number = String.raw`\d+(?:[,_]\d{3})*(?:\.\d+)?`;
/** A number with a unit, or a number with a thousands separator, which must come from a count. */
const figure = new RegExp(
  String.raw`(?<![\w.,/#:-])(${number})(?:–${number})?(?:[ -]?(?:(${units})s?|[%×]|${counted})(?!\w)|(?<=,\d{3}))(?![\w/])`,
  'g',
);

interface Figure {
  readonly text: string;
  /** In milliseconds if the figure is a time, in bytes if it is a size. */
  readonly quantity: string;
}

function figuresIn(text: string): Figure[] {
  return [...text.matchAll(figure)].map(([all, digits = '', unit = '']) => {
    const value = Number(digits.replaceAll(/[,_]/g, ''));
    if (unit in milliseconds) return { text: all, quantity: timeOf(value * milliseconds[unit as 'ms']) };
    if (unit in bytes) return { text: all, quantity: `${value * bytes[unit as 'B']} bytes` };
    return { text: all, quantity: all.endsWith('%') ? `${value} %` : `${value}` };
  });
}

const timeOf = (value: number): string => `${Number(value.toPrecision(6))} ms`;

/** The quantities in a program or a kept output, including those of products such as `30 * day` and `16 * 1_024`. */
function quantitiesIn(text: string): string[] {
  const products = text.matchAll(/((?:\d[\d_.]*(?: \*{1,2} )?)+)(second|minute|hour|day|kib|mib)?/g);
  const computed = [...products].flatMap(([, product = '', name]) => {
    const factors = product.replaceAll('_', '').split(' * ').filter(Boolean);
    const value = factors.reduce((all, factor) => {
      const [base, power = 1] = factor.split(' ** ').map(Number);
      return all * (base ?? NaN) ** power;
    }, 1);
    const found = [`${value}`, `${value} bytes`];
    if (name === 'kib' || name === 'mib') found.push(`${value * bytes[name === 'kib' ? 'KiB' : 'MiB']} bytes`);
    // A small whole number without a unit is not taken for a time, because it can mean anything.
    else if (factors.length > 1 || name !== undefined || value >= 100)
      found.push(timeOf(value * (name === undefined ? 1 : milliseconds[name as 'day'])));
    // Fractions may be bounds of histograms, which are in seconds, or shares.
    if (product.includes('.')) found.push(timeOf(value * 1e3), `${Number((value * 100).toPrecision(6))} %`);
    return found;
  });
  return [...figuresIn(text).map(({ quantity }) => quantity), ...computed];
}

const read = (file: string): string => readFileSync(file, 'utf8');

const code = globSync(['src/**/*.ts', 'deploy/**/*.{yaml,json}', 'config/*.yaml', 'kits/*.ts', 'Dockerfile']);
const constants = new Set(code.flatMap((file) => quantitiesIn(read(file))));

/** The sections of a page, without code and without the parts between markers, which commands write. */
function sectionsOf(markdown: string): string[] {
  return markdown
    .replaceAll(/<!-- begin [^]*?<!-- end .*/g, '')
    .replaceAll(/^ *(```+)[^]*?^ *\1 *$/gm, '')
    .replaceAll(/`[^`\n]*`/g, '')
    .split(/^(?=#+ )/m);
}

/** The files to which a section links, except pages: tests, trials and kept outputs. */
function linkedFiles(page: string, section: string): string[] {
  return [...section.matchAll(/\]\(([^)#\s]+)/g)]
    .map(([, target = '']) => join(dirname(page), target))
    .filter((file) => !file.endsWith('.md') && statSync(file, { throwIfNoEntry: false })?.isFile() === true);
}

/** The figures on a page that are neither in the code nor in a file to which their section links. */
function unfounded(page: string, markdown: string): string[] {
  return sectionsOf(markdown).flatMap((section) => {
    const linked = new Set(linkedFiles(page, section).flatMap((file) => quantitiesIn(read(file))));
    return figuresIn(section)
      .filter(({ quantity }) => !constants.has(quantity) && !linked.has(quantity))
      .map(({ text }) => text);
  });
}

const pages = ['README.md', 'CHANGELOG.md', 'SECURITY.md', 'kits/README.md', ...globSync('docs/**/*.md')].toSorted();

describe('a figure on a page', () => {
  test.each(pages)(
    'is a constant in the code, or appears in a test or a kept output that its section links to: %s',
    (page) => {
      expect(unfounded(page, read(page))).toEqual([]);
    },
  );

  test('between markers is written by a command', () => {
    const written = new Set<string>(blocks.map(({ name }) => name));
    const markers = [
      ...pages
        .map(read)
        .join('\n')
        .matchAll(/<!-- begin (\S+) -->/g),
    ];
    expect(markers.length).toBeGreaterThan(0);
    expect(markers.filter(([, name = '']) => !written.has(name))).toEqual([]);
  });
});

describe('the check of figures', () => {
  test.each([
    'It takes 97 to 112 MiB.',
    'The p99 was 347 ms.',
    'A request costs 103.7 µs.',
    'In 3,977 of them nothing was seen.',
    'It ran 813 cases.',
    'This saves 3.7 %.',
    'Go is 1.83 × as fast.',
    '| median | 347 ms |',
  ])('reports a figure that nothing measures: %s', (sentence) => {
    expect(unfounded('docs/a.md', `# Title\n\n${sentence}\n`)).toHaveLength(1);
  });

  test.each([
    'Keys expire after 365 days.',
    'A head has at most 16 KiB and 100 fields.',
    'Send `--cases 813`.',
    'See RFC 9112 and version 1.2.',
    '```\n813 cases\n```',
  ])('accepts the figures in %j', (sentence) => {
    expect(unfounded('docs/a.md', `# Title\n\n${sentence}\n`)).toEqual([]);
  });

  test('searches the files that the same section links to', () => {
    const sentence = 'The image adds 20 MB ([test](../test/image/image.test.ts)).';
    expect(unfounded('docs/a.md', `# Title\n\n${sentence}\n`)).toEqual([]);
    expect(unfounded('docs/a.md', `# Title\n\n${sentence}\n\n## Other\n\nIt has 20 MB.\n`)).toEqual(['20 MB']);
  });
});

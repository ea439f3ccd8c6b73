import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, test } from 'vitest';

interface RetiredWord {
  readonly pattern: RegExp;
  /** The word to use. */
  readonly instead: string;
  /** A line with the retired word, and a similar one that is fine. */
  readonly examples: readonly [retired: string, fine: string];
}

const retiredWords: readonly RetiredWord[] = [
  {
    // A name: "answered" in one is a verb.
    pattern:
      /\b\w+Answers?\b|\b[aA]nswers?[A-Z]|#answer(?!ed)|\b(?:const|let|function|class|interface|type) [aA]nswers?\b|\banswers?[(;)]/,
    instead: 'response, or respond',
    examples: ['export function sealAnswer(', 'async untilAnswered('],
  },
  {
    pattern:
      /\b(?:an?|the|its|their|whose|every|each|no|this|these|any|all|both|one|first|second|last|next|other|same|plain|sealed|\d+) answers?\b|\} answers?\b/,
    instead: 'response',
    examples: ['}${count} answers instead of one', 'the file that answers it'],
  },
  {
    pattern:
      /\b[aA]nswers? (?:of|from|to `|come|comes|are|is|was|were|that|which|instead)\b|\bANSWER\b|\b(?:help: |log\.\w+\().*\banswer(?!ed)/,
    instead: 'response',
    examples: ["'answers come in order'", 'it is answered at once'],
  },
  {
    // A name: "kept" in a sentence is a verb.
    pattern:
      /\bkept(?:[-A-Z([]|\.\w)|\bKept[A-Z]|(?<=[a-z])(?<!\b(?:is|are|was|were))Kept\b|#kept\b|\b(?:const|let|readonly) kept\b|\b(?:an?|the|its|no) kept\b/,
    instead: 'keep-alive or idle for a connection, or the name of what is stored',
    examples: ['class KeptClient {', 'const isKept: it is kept.'],
  },
  {
    pattern: /\b(?:class|interface|type) Share\b/,
    instead: 'slots',
    examples: ['export class Share {', 'share'],
  },
  {
    pattern: /\b(?:class|interface|type) Once\b/,
    instead: 'IdempotencyKey',
    examples: ['export interface Once {', 'Once begun'],
  },
  {
    pattern: /\b[Ss]eal(?:s|ed)? (?:all |stored )?credentials (?:with|before)|\b(?:open|seal)(?:Account|Credentials)\b/,
    instead: 'wrap or unwrap, for the master key: envelopes are sealed and opened',
    examples: ['function openCredentials(', 'sealed with the credentials'],
  },
  { pattern: /\bKeyWishes\b/, instead: 'KeyOptions', examples: ['interface KeyWishes', 'interface KeyOptions'] },
  { pattern: /\bKind</, instead: 'ValueType', examples: ['const text: Kind<string> =', 'readonly Kind[]'] },
  { pattern: /\b[dD]esk\b/, instead: 'the name of what it sets up', examples: ['const desk =', 'desktop'] },
  { pattern: /\bsurroundings\b/i, instead: 'environment or setup', examples: ['Surroundings', 'surrounding'] },
  { pattern: /\bunkind(?:\b|-|Core)|UnkindCore/, instead: 'faulty', examples: ['unkind-core.ts', 'kind'] },
  { pattern: /\brefuseTwice\b/, instead: 'refuseDuplicates', examples: ['refuseTwice(a)', 'twice'] },
  { pattern: /\bsteady scale\b/, instead: 'monotonic', examples: ['on a steady scale', 'scale'] },
  {
    pattern: /\bwhoever\b/i,
    instead: 'the part that acts: the client, the caller, an operator',
    examples: ['for whoever asks', 'who'],
  },
  {
    // A name in test data is followed by a quote or belongs to an address.
    pattern: /(?<!['/=])\b[Nn]obody(?!['"`@&]|\.\w)\b/,
    instead: 'the part that does not act, in the passive or with "no"',
    examples: ['Nobody reads it.', "account: 'nobody'"],
  },
  {
    pattern: /(?<!['])\b(?:some|any|every)body(?!['])\b/i,
    instead: 'the part that acts: the client, another process, any visitor',
    examples: ['Somebody changes it.', "actor: 'somebody'"],
  },
  {
    pattern: /\b(?:some|every|no )one\b/i,
    instead: 'the part that acts: the client, another process, any visitor',
    examples: ['Someone changes it.', 'some one-time key'],
  },
  {
    // A docstring, or a comment that begins with it.
    pattern: /\/\*\* What(?:ever)?\b|^\s*(?:\*|\/\/|#) What (?:is|are|was|were|has|had)\b/,
    instead: 'a noun: the rows, the sealed body',
    examples: ['/** What was read so far. */', '/** The rows read so far, and what they cost. */'],
  },
  {
    pattern:
      /\bwhere (?:no|all|most|more than|fewer than|less than|nothing|possible|necessary|there (?:is|are) no)\b|\bwhere (?:it|this|one|they|these) (?:can|cannot|could|must|may|is needed|has|have)\b/i,
    instead: 'if, or when',
    examples: ['made here where it cannot be pulled', 'checked where it is used'],
  },
  {
    pattern: /\bvi\.waitUntil\(/,
    instead: 'eventually, whose message names what was awaited',
    examples: ['await vi.waitUntil(() =>', 'await eventually('],
  },
  { pattern: /\bfor ever\b/i, instead: 'forever, or without end', examples: ['waits for ever', 'forever'] },
  { pattern: /\bweakness(?:es)?\b/i, instead: 'vulnerability', examples: ['fix of a weakness', 'weak'] },
  { pattern: /\btells? the bill\b/i, instead: 'adds to the budget', examples: ['Tells the bill', 'tells'] },
  { pattern: /\bthe begin of\b|\bits begin\b/i, instead: 'the start of', examples: ['the begin of a drain', 'begins'] },
  { pattern: /\bso many\b/i, instead: 'this many, or a name', examples: ['up to so many bytes', 'many'] },
  { pattern: /\bat hand\b/i, instead: 'cached, or available', examples: ['kept at hand', 'by hand'] },
  { pattern: /\bof all that\b/i, instead: 'a subject and a verb', examples: ['Of all that is ready, one', 'all that'] },
  { pattern: /\bnow and then\b/i, instead: 'sometimes, or the interval', examples: ['written now and then', 'now'] },
  { pattern: /\bmended?\b/i, instead: 'fixed, or corrected', examples: ['it is mended', 'recommended'] },
  {
    pattern: /\b(?:is|are|tells?|told) told of\b|\btells? of\b/i,
    instead: 'reports',
    examples: ['is told of', 'told'],
  },
  {
    pattern: /\bwhat (?:came|comes|became|becomes) of\b/i,
    instead: 'the result of',
    examples: ['What came of a case', 'what comes next'],
  },
  {
    pattern: /\bgo(?:es)? on (?:working|serving|living)\b/i,
    instead: 'keeps working',
    examples: ['known keys go on working', 'goes on'],
  },
];

const checked = [
  '.ci',
  '.npmrc',
  'bin',
  'src',
  'test',
  'trials',
  'bench',
  'docs',
  'deploy',
  'config',
  'scripts',
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'Dockerfile',
  'package.json',
  'knip.json',
  'renovate.json',
  'vite.config.ts',
  'vite.sidecar.config.ts',
  'vitest.config.ts',
];

/** The rules themselves, and the pairs of examples that CONTRIBUTING.md shows. */
const exempt = (file: string, line: string): boolean =>
  file === 'test/words.test.ts' || (file === 'CONTRIBUTING.md' && line.startsWith('|'));

function filesBelow(path: string): string[] {
  if (!existsSync(path)) throw new Error(`${path} does not exist`);
  if (statSync(path).isFile()) return [path];
  const below = readdirSync(path, { recursive: true, withFileTypes: true });
  return below
    .filter(
      (entry) => entry.isFile() && /\.(?:tsx?|md|ya?ml|json|sh|sql|go|lua|conf|html|css|svg)$|^[^.]+$/.test(entry.name),
    )
    .map(({ parentPath, name }) => join(parentPath, name));
}

describe('a retired word', () => {
  const files = checked.flatMap(filesBelow).map((file) => ({ file, lines: readFileSync(file, 'utf8').split('\n') }));

  test.each(retiredWords.map((word) => [word.pattern.source, word] as const))('%s is not used', (_name, word) => {
    const uses = files.flatMap(({ file, lines }) =>
      lines.flatMap((line, i) =>
        word.pattern.test(line) && !exempt(file, line) ? `${file}:${i + 1}: use ${word.instead}: ${line.trim()}` : [],
      ),
    );
    expect(uses).toEqual([]);
  });

  test('is in no file name', () => {
    const names = files
      .map(({ file }) => file)
      .filter((file) => /answer|desk|surroundings|unkind/.test(basename(file)));
    expect(names).toEqual([]);
  });

  test.each(retiredWords.map(({ pattern, examples: [retired, fine] }) => [retired, fine, pattern] as const))(
    'is found in %j and not in %j',
    (retired, fine, pattern) => {
      expect([pattern.test(retired), pattern.test(fine)]).toEqual([true, false]);
    },
  );
});

import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { asMarkdown, asText } from '../../bench/table.ts';
import { withCleanUp } from '../load/stage.ts';
import { changedSources, git } from './changes.ts';
import { mutate, root } from './run.ts';
import { scoreOf } from './score.ts';

const usage = `npm run mutate -- [OPTIONS] [FILE...]

Makes mutants of files in src/ with StrykerJS, and runs the tests that reach each of them. Without files: those that a
change touches. Exit code 1 below 90 %.

  --base REV   what the change is compared with (where this branch left main)
  --minutes N  stops then (120)
  --keep       keeps the results in trials/mutation/kept-run.md, and its table in docs/reliability.md
`;

const leastPercent = 90;

interface Options {
  readonly base?: string | undefined;
  readonly minutes: string;
  readonly keep: boolean;
}

async function run({ base, minutes, keep }: Options, named: readonly string[]): Promise<number> {
  const since = git(root, 'rev-parse', '--short', base ?? git(root, 'merge-base', 'HEAD', 'main'));
  const files = named.length > 0 ? named : changedSources(root, since);
  if (files.length === 0) {
    console.log(`nothing in src/ has changed since ${since}: --base REV compares with another commit`);
    return 0;
  }
  const what = named.length > 0 ? named.join(', ') : `${files.length} files that have changed since ${since}`;
  console.log(`mutants of ${what}`);
  const { results, planned } = await withCleanUp((defer) => mutate(files, Number(minutes) * 60, defer));
  const { percent, table, survivors } = scoreOf(results, planned);
  for (const line of survivors) console.log(line);
  console.log(`\n${asText(table)}`);
  if (keep) await keepRun(what, asMarkdown(table), survivors);
  return percent >= leastPercent ? 0 : 1;
}

/** Writes what the page quotes next to this program, and the page's part of it. */
async function keepRun(what: string, table: string, survivors: readonly string[]): Promise<void> {
  const [cpu] = cpus();
  const how =
    `${new Date().toISOString().slice(0, 10)}, ${what}, at ${git(root, 'rev-parse', '--short', 'HEAD')}, ` +
    `Node ${process.version.slice(1)}, ${cpus().length} cores of ${cpu?.model ?? 'an unknown processor'}.`;
  const file = join(root, 'trials/mutation/kept-run.md');
  const part = `${how}\n\n${table}`;
  const list = survivors.length === 0 ? 'None survived.' : ['```', ...survivors, '```'].join('\n');
  await write(file, `# The kept run of \`npm run mutate\`\n\n${part}\n\n## Survivors\n\n${list}\n`);
  const page = join(root, 'docs/reliability.md');
  const [begin, end] = ['<!-- begin mutation -->', '<!-- end mutation -->'];
  const [before, rest] = readFileSync(page, 'utf8').split(begin);
  const after = rest?.split(end)[1];
  if (after === undefined) throw new Error('docs/reliability.md has no markers for the mutation score');
  await write(page, `${before}${begin}\n\n${part}\n\n${end}${after}`);
  console.log(`wrote ${relative(root, file)} and ${relative(root, page)}`);
}

async function write(file: string, text: string): Promise<void> {
  writeFileSync(file, await format(text, { ...(await resolveConfig(file)), filepath: file }));
}

try {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      base: { type: 'string' },
      minutes: { type: 'string', default: '120' },
      keep: { type: 'boolean', default: false },
    },
  });
  process.exitCode = await run(values, positionals);
} catch (error) {
  console.error(`${(error as Error).message}\n\n${usage}`);
  process.exitCode = 2;
}

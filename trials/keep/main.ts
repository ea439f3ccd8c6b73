import { join } from 'node:path';
import { keep, nameOf } from './keep.ts';

const usage = `npm run keep -- SCRIPT [OPTIONS]

Runs a trial, such as races, and keeps its output in docs/figures if it finds no fault. The pages quote it.
`;

const root = join(import.meta.dirname, '../..');
const [script, ...args] = process.argv.slice(2);

if (script === undefined || script.startsWith('-')) {
  console.error(usage);
  process.exitCode = 2;
} else {
  const file = join(root, 'docs/figures', `${nameOf(script, args)}.txt`);
  process.exitCode = await keep(file, root, [
    'npm',
    'run',
    '--silent',
    script,
    ...(args.length > 0 ? ['--', ...args] : []),
  ]);
}

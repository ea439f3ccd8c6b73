import { withCleanUp } from '../load/stage.ts';
import { faults } from './faults.ts';
import { Copy } from './try.ts';

const chosen = faults.filter(({ file, text }) =>
  process.argv.slice(2).every((word) => `${file} ${text}`.includes(word)),
);

if (chosen.length === 0) {
  console.log('no fault has these words: name words of its file or text, which are in trials/faults/faults.ts');
  process.exit(1);
}

/**
 * Tries each fault in a copy of the sources. If there are arguments, only the faults that contain them are tried. The exit code is 1 if a
 * test misses a fault.
 */
process.exitCode = await withCleanUp(async (defer) => {
  const copy = new Copy(defer);
  const outcomes = [];
  if (!(await copy.passes([...new Set(chosen.map(({ test }) => test))]))) {
    console.log('without a fault the tests fail, or some are skipped');
    return 1;
  }
  for (const fault of chosen) {
    const outcome = await copy.try(fault);
    outcomes.push(outcome);
    console.log(`${outcome.padEnd(8)} ${fault.file}  ${JSON.stringify(fault.text)}  ${fault.test}`);
  }
  console.log(`\n${outcomes.length} faults, ${outcomes.filter((outcome) => outcome === 'noticed').length} noticed`);
  return outcomes.every((outcome) => outcome === 'noticed') ? 0 : 1;
});

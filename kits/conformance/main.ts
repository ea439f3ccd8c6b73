/** Tries the vectors on any program that speaks the protocol in README.md: `node main.ts [--kit] COMMAND`. */
import { parseArgs } from 'node:util';
import { Driver } from './driver.ts';
import { tryVectors } from './vectors.ts';

const { values, positionals } = parseArgs({
  options: { kit: { type: 'boolean', default: false } },
  allowPositionals: true,
});
if (positionals.length === 0) {
  console.error('usage: npx node kits/conformance/main.ts [--kit] COMMAND\nsee kits/conformance/README.md');
  process.exit(2);
}
const driver = new Driver(positionals.join(' '), process.cwd());
const { tried, failures } = await tryVectors(driver, { isKit: values.kit });
await driver.close();
for (const failure of failures) console.log(`failed: ${failure}`);
console.log(`${tried - failures.length} passed, ${failures.length} failed`);
process.exitCode = failures.length > 0 ? 1 : 0;

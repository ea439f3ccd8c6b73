import { expect, test } from 'vitest';
import manifest from '../package.json' with { type: 'json' };

test("the tests run on the version of Node that the project pins, not on the machine's", () => {
  expect(process.version).toBe(`v${manifest.devDependencies.node}`);
});

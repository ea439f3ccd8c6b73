import { expect, test } from 'vitest';
import manifest from '../package.json' with { type: 'json' };

test('the tests run on the Node that the project pins, not on the one the machine has', () => {
  expect(process.version).toBe(`v${manifest.devDependencies.node}`);
});

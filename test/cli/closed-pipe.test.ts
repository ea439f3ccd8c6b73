import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const run = promisify(execFile);

test.each(['seal', 'open', 'check', '--help'])('%s ends where nobody reads what it prints', async (command) => {
  const line = `(echo '{"a":1}' | "$NODE" src/main.ts ${command}; echo "ended" >&2) | true`;
  const env = {
    ...process.env,
    NODE: process.execPath,
    SIDECAR_KEY: 'k7Jq2vXw9RtB4mNz8LpC1sDfG5hYeU3a',
    SIDECAR_IV: 'Zx9Qw3Er7Ty1Ui5O',
  };
  const { stderr } = await run('sh', ['-c', line], { env, timeout: 20_000 });
  expect(stderr).toContain('ended');
});

import { readFileSync } from 'node:fs';
import { localKeyring } from './accounts/keyring.ts';
import { completeStream, Output } from './cli/output.ts';
import { run } from './cli/run.ts';
import { kmsKeyring } from './kms/kms-keyring.ts';
import { packageFile } from './package-file.ts';
import { LogOutput } from './telemetry/log-output.ts';

const { version } = JSON.parse(readFileSync(packageFile('package.json'), 'utf8')) as {
  version: string;
};
const log = new LogOutput(1);

// After an unexpected exception, no state can be trusted, so log the exception and exit.
process.on('uncaughtException', (error) => {
  try {
    log.crash(error);
  } finally {
    process.exit(1);
  }
});

const exitCode = await run(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: new Output(completeStream(1, process.stdout)),
  stderr: new Output(completeStream(2, process.stderr)),
  env: process.env,
  log,
  version,
  clock: Date.now,
  keyring: (kms) => (kms === undefined ? localKeyring : kmsKeyring(kms, Date.now)),
  onSignal: (signal, handler) => void process.on(signal, handler),
});
await log.end();
process.exit(exitCode);

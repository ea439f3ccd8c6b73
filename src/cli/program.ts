import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { Command, CommanderError, Option } from 'commander';
import { keyTexts } from '../envelope/credentials.ts';
import { encodings, type Encoding } from '../envelope/encoding.ts';
import { addAccountCommands } from './accounts.ts';
import { addAuditCommands } from './audit.ts';
import { check, type CheckOptions } from './check.ts';
import { open, seal, type CipherOptions } from './cipher.ts';
import { demo } from './demo.ts';
import { addEncryptionCommands } from './encryption.ts';
import { toExitCode, printError } from './failures.ts';
import { init } from './init.ts';
import { exitCodes, type CliIo } from './io.ts';
import { addKeyCommands } from './keys.ts';
import { addMasterKeyCommands } from './master-key.ts';
import { packageFile } from '../package-file.ts';
import { configOption } from './options.ts';
import { drain, reload, status } from './running.ts';
import { serve } from './serve.ts';
import { members } from './table.ts';
import { storeCommands, type AddStoreCommand, type RunCommand } from './store-command.ts';

/** Runs the command that `args` names. Returns the exit code. */
export async function runProgram(args: readonly string[], io: CliIo): Promise<number> {
  let exitCode: number = exitCodes.done;
  const program = commandLine(io, async (name, work) => {
    exitCode = await toExitCode(io, name, work);
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // `--help` and `--version` succeed; everything else that commander throws is wrong usage.
    return error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
  }
}

/** Every command, with its arguments and options. */
export function commandLine(io: CliIo, runCommand: RunCommand): Command {
  const program = new Command('sidecar')
    .description('An encryption sidecar for payment APIs: checks API keys, opens envelopes, seals responses.')
    .version(io.version)
    .exitOverride()
    .configureOutput({ writeOut: (text) => void io.stdout.write(text), writeErr: (text) => void printError(io, text) });
  addServiceCommands(program, io, runCommand);
  const group = (name: string, description: string): AddStoreCommand =>
    storeCommands(program.command(name).description(description), io, runCommand);
  addAccountCommands(group('accounts', 'add, list, change, import and export accounts'));
  addKeyCommands(group('keys', 'issue, list, find, rotate and revoke API keys'));
  addEncryptionCommands(group('encryption', 'enable, disable and show the encryption of an account'));
  addAuditCommands(group('audit', 'list, verify and export the audit trail'));
  const masterKey = program
    .command('master-key')
    .description('create, wrap and list the keys that seal stored credentials');
  addMasterKeyCommands(masterKey, storeCommands(masterKey, io, runCommand), io, runCommand);
  addCipherCommands(program, io, runCommand);
  return program;
}

/** Adds `serve|check|init|demo|drain|status|reload|version`. */
function addServiceCommands(program: Command, io: CliIo, runCommand: RunCommand): void {
  program
    .command('serve')
    .description('run the sidecar')
    .addOption(configOption(io))
    .action(({ config }: { config: string }) => runCommand('serve', () => serve(io, config)));
  program
    .command('check')
    .description('validate the configuration: print OK or its problems')
    .addOption(configOption(io))
    .option('--online', 'also test the store, the credentials, the upstreams and the certificates')
    .option('--json', 'print the result as JSON')
    .action((options: CheckOptions) => runCommand('check', () => check(io, options)));
  program
    .command('init')
    .description('write a commented configuration for a new installation')
    .argument('[folder]', 'folder for the files', '.')
    .action((folder: string) => runCommand('init', () => init(io, folder)));
  program
    .command('demo')
    .description('run the sidecar with the shipped configuration and a stand-in payment core; print curl commands')
    .option('--free-ports', 'use free ports instead of the configured ones')
    .action(({ freePorts }: { freePorts?: true }) =>
      runCommand('demo', () => demo(io, { freePorts: freePorts === true })),
    );
  const toRunning = (name: string, description: string, run: typeof drain | typeof reload): void => {
    program
      .command(name)
      .description(description)
      .addOption(configOption(io))
      .option('--json', 'print the result as JSON')
      .action((options: Parameters<typeof run>[1]) => runCommand(name, () => run(io, options)));
  };
  toRunning('drain', 'drain the running sidecar; return when no request is in flight', drain);
  toRunning('status', 'show the state of the running sidecar and its files', status);
  toRunning('reload', 'reload the files of the running sidecar; show whether they are in force', reload);
  program
    .command('version')
    .description('print the versions of the sidecar and Node, and the commit')
    .addOption(configOption(io).hideHelp())
    .action(() => runCommand('version', () => printVersion(io)));
}

/** Adds `seal|open`. */
function addCipherCommands(program: Command, io: CliIo, runCommand: RunCommand): void {
  const cipherCommand = (name: string, description: string): Command =>
    program
      .command(name)
      .description(description)
      .option('--key-file <file>', 'file with the key (default: the variable SIDECAR_KEY)')
      .option('--iv-file <file>', 'file with the IV (default: the variable SIDECAR_IV)')
      .addOption(new Option('--format <format>', 'encoding of the key and the IV').choices(keyTexts).default('text'));
  cipherCommand('seal', 'read JSON from stdin, write its envelope to stdout')
    .addOption(new Option('--encoding <encoding>', 'encoding of the ciphertext').choices(encodings).default('hex'))
    .action((options: CipherOptions & { encoding: Encoding }) => runCommand('seal', () => seal(io, options)));
  cipherCommand('open', 'read an envelope of JSON from stdin, write its plaintext to stdout').action(
    (options: CipherOptions) => runCommand('open', () => open(io, options)),
  );
}

async function printVersion({ stdout, version, env }: CliIo): Promise<void> {
  // The image build sets this variable.
  const commit = env['SIDECAR_REVISION'] || readCommit(packageFile('.git'), env);
  await stdout.write(members({ 'envelope-sidecar': version, node: process.version, commit }));
}

/** The commit that is checked out; undefined if this is not a checkout, or if git is not installed or fails. */
function readCommit(repository: string, env: CliIo['env']): string | undefined {
  if (!existsSync(repository)) return undefined;
  const options = { cwd: dirname(repository), env, encoding: 'utf8' } as const;
  const { status, stdout } = spawnSync('git', ['rev-parse', 'HEAD'], options);
  return status === 0 ? stdout.trim() : undefined;
}

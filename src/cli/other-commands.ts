import { Option, type Command } from 'commander';
import { formatNames } from '../envelope/credentials.ts';
import { encodings, type Encoding } from '../envelope/encoding.ts';
import { addAccountCommands } from './accounts.ts';
import { check, type CheckOptions } from './check.ts';
import { addAuditCommands } from './audit.ts';
import { open, seal, type CipherOptions } from './cipher.ts';
import { configOption } from './config-option.ts';
import { demo } from './demo.ts';
import { drain } from './drain.ts';
import { addEncryptionCommands } from './encryption.ts';
import { init } from './init.ts';
import type { CliIo } from './io.ts';
import { addKeyCommands } from './keys.ts';
import type { SetExitCode } from './store-command.ts';

/** Adds all commands but `serve`. */
export function addOtherCommands(program: Command, io: CliIo, setExitCode: SetExitCode): void {
  program
    .command('check')
    .description('validate the configuration: print OK, or the problems')
    .addOption(configOption(io))
    .option('--online', 'also try the store, the credentials, the upstreams and the certificates')
    .option('--json', 'the result as JSON, for programs')
    .action(async (options: CheckOptions) => {
      setExitCode(await check(io, options));
    });
  program
    .command('init')
    .description('write a commented configuration for a new installation')
    .argument('[folder]', 'folder to write to', '.')
    .action(async (folder: string) => {
      setExitCode(await init(io, folder));
    });
  program
    .command('demo')
    .description('start a stand-in payment core and the sidecar on config/, and print curl commands to paste')
    .option('--free-ports', 'take free ports instead of the configured ones')
    .action(async ({ freePorts }: { freePorts?: true }) => {
      setExitCode(await demo(io, { freePorts: freePorts === true }));
    });
  program
    .command('drain')
    .description('drain the running sidecar and wait until nothing is in flight')
    .addOption(configOption(io))
    .action(async ({ config }: { config: string }) => {
      setExitCode(await drain(io, config));
    });

  addAccountCommands(program, io, setExitCode);
  addKeyCommands(program, io, setExitCode);
  addEncryptionCommands(program, io, setExitCode);
  addAuditCommands(program, io, setExitCode);

  const cipherCommand = (name: string, description: string): Command =>
    program
      .command(name)
      .description(description)
      .option('--key-file <file>', 'the key (default: SIDECAR_KEY)')
      .option('--iv-file <file>', 'the IV (default: SIDECAR_IV)')
      .addOption(new Option('--format <format>', 'how key and IV are written').choices(formatNames).default('text'));
  cipherCommand('seal', 'JSON on stdin to an envelope on stdout')
    .addOption(new Option('--encoding <encoding>', 'of the ciphertext').choices(encodings).default('hex'))
    .action(async (options: CipherOptions & { encoding: Encoding }) => {
      setExitCode(await seal(io, options));
    });
  cipherCommand('open', 'an envelope on stdin to its plaintext on stdout').action(async (options: CipherOptions) => {
    setExitCode(await open(io, options));
  });
}

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
    .description('validate the configuration: print OK or its problems')
    .addOption(configOption(io))
    .option('--online', 'also test the store, the credentials, the upstreams and the certificates')
    .option('--json', 'print the result as JSON')
    .action(async (options: CheckOptions) => {
      setExitCode(await check(io, options));
    });
  program
    .command('init')
    .description('write a commented configuration for a new installation')
    .argument('[folder]', 'folder for the files', '.')
    .action(async (folder: string) => {
      setExitCode(await init(io, folder));
    });
  program
    .command('demo')
    .description('run the sidecar with the shipped configuration and a stand-in payment core; print curl commands')
    .option('--free-ports', 'use free ports instead of the configured ones')
    .action(async ({ freePorts }: { freePorts?: true }) => {
      setExitCode(await demo(io, { freePorts: freePorts === true }));
    });
  program
    .command('drain')
    .description('drain the running sidecar; return when no request is in flight')
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
      .option('--key-file <file>', 'file with the key (default: the variable SIDECAR_KEY)')
      .option('--iv-file <file>', 'file with the IV (default: the variable SIDECAR_IV)')
      .addOption(
        new Option('--format <format>', 'encoding of the key and the IV').choices(formatNames).default('text'),
      );
  cipherCommand('seal', 'read JSON from stdin, write its envelope to stdout')
    .addOption(new Option('--encoding <encoding>', 'encoding of the ciphertext').choices(encodings).default('hex'))
    .action(async (options: CipherOptions & { encoding: Encoding }) => {
      setExitCode(await seal(io, options));
    });
  cipherCommand('open', 'read an envelope from stdin, write its plaintext to stdout').action(
    async (options: CipherOptions) => {
      setExitCode(await open(io, options));
    },
  );
}

import { Command, CommanderError, Option } from 'commander';
import { credentialFormats } from '../envelope/credentials.ts';
import { encodings, type Encoding } from '../envelope/encoding.ts';
import { addAccountCommands } from './accounts.ts';
import { check } from './check.ts';
import { open, seal, type CipherOptions } from './cipher.ts';
import { complain } from './complain.ts';
import { configOption } from './config-option.ts';
import { demo } from './demo.ts';
import { drain } from './drain.ts';
import { addEncryptionCommands } from './encryption.ts';
import { exitCodes, type CliIo } from './io.ts';
import { addKeyCommands } from './keys.ts';
import { serve } from './serve.ts';

/**
 * Runs the command that `args` names (without the program's own name) and returns the process's exit code: 0 done,
 * 2 wrong usage, 78 a configuration that is not valid, 1 anything else.
 */
export async function run(args: readonly string[], io: CliIo): Promise<number> {
  let exitCode: number = exitCodes.done;
  const program = new Command('envelope-sidecar')
    .description('An encryption sidecar for payment APIs: checks API keys, opens envelopes, seals answers.')
    .version(io.version)
    .exitOverride()
    .configureOutput({ writeOut: (text) => io.stdout.write(text), writeErr: (text) => complain(io, text) });
  const ended = (code: number): void => void (exitCode = code);

  program
    .command('serve')
    .description('run the sidecar')
    .addOption(configOption(io))
    .action(async ({ config }: { config: string }) => {
      exitCode = await serve(io, config);
    });
  program
    .command('check')
    .description('validate the configuration: OK, or every problem')
    .addOption(configOption(io))
    .action(({ config }: { config: string }) => {
      exitCode = check(io, config);
    });
  program
    .command('demo')
    .description('start a stand-in payment core and the sidecar on config/, and print curl commands to paste')
    .option('--free-ports', 'take free ports instead of the configured ones')
    .action(async ({ freePorts }: { freePorts?: true }) => {
      exitCode = await demo(io, { freePorts: freePorts === true });
    });
  program
    .command('drain')
    .description('begin the drain of the running sidecar and wait until nothing is in flight')
    .addOption(configOption(io))
    .action(async ({ config }: { config: string }) => {
      exitCode = await drain(io, config);
    });

  addAccountCommands(program, io, ended);
  addKeyCommands(program, io, ended);
  addEncryptionCommands(program, io, ended);

  const cipherCommand = (name: string, description: string): Command =>
    program
      .command(name)
      .description(description)
      .option('--key-file <file>', 'the key (default: SIDECAR_KEY)')
      .option('--iv-file <file>', 'the IV (default: SIDECAR_IV)')
      .addOption(
        new Option('--format <format>', 'how key and IV are written').choices(credentialFormats).default('text'),
      );
  cipherCommand('seal', 'JSON on stdin to an envelope on stdout')
    .addOption(new Option('--encoding <encoding>', 'of the ciphertext').choices(encodings).default('hex'))
    .action(async (options: CipherOptions & { encoding: Encoding }) => {
      exitCode = await seal(io, options);
    });
  cipherCommand('open', 'an envelope on stdin to its plaintext on stdout').action(async (options: CipherOptions) => {
    exitCode = await open(io, options);
  });

  try {
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // Help that was asked for is an answer; everything else that commander throws is wrong usage.
    return error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
  }
}

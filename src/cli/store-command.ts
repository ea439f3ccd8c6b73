import { userInfo } from 'node:os';
import { Command } from 'commander';
import { AccountsError, type AccountsErrorCode } from '../accounts/accounts-error.ts';
import { Operations, type OperationsOptions } from '../accounts/operations.ts';
import type { StoreSettings } from '../config/config.ts';
import { loadSettings } from '../config/load.ts';
import { openStore } from '../config/command-store.ts';
import { auditTo } from '../telemetry/change-log.ts';
import { createLogger } from '../telemetry/logger.ts';
import { CommandFailed } from './command-failed.ts';
import { complain } from './complain.ts';
import { invalidConfiguration } from './invalid-configuration.ts';
import { exitCodes, type CliIo } from './io.ts';
import { writeArray, writeTable, type Layout } from './list-output.ts';
import { actorName, actorOption, configOption } from './options.ts';

/** The dependencies of a command on accounts. */
export interface StoreSession extends OperationsOptions {
  readonly io: CliIo;
  readonly operations: Operations;
  /** Of the store. */
  readonly settings: StoreSettings;
  /** The user who runs the command, for the audit trail. */
  readonly actor: string;
  /** Writes a result to stdout: as JSON with `--json`, otherwise as these lines. @param lines gets the width of stdout, in cells */
  readonly show: (result: unknown, lines: (width: number) => string) => Promise<void>;
  /** Writes a list to stdout, as it is read: as a JSON array with `--json`, otherwise as a table. */
  readonly showList: <Item>(items: AsyncIterable<Item>, layout: Layout<Item>) => Promise<void>;
  /** Reports on stderr an account that is left out; the command then fails at its end. */
  readonly unreadable: (error: AccountsError) => void;
}

/** Options that every command on accounts has. */
interface StoreOptions {
  readonly config: string;
  readonly json?: true;
  readonly actor?: string;
}

/** Sets the exit code that `run` returns. */
export type SetExitCode = (exitCode: number) => void;

/** Adds a command to a group. */
export type AddStoreCommand = (name: string, description: string) => StoreCommand;

export function storeCommands(group: Command, io: CliIo, setExitCode: SetExitCode): AddStoreCommand {
  return (name, description) => {
    const command = new StoreCommand(name, io, setExitCode).description(description).copyInheritedSettings(group);
    group.addCommand(command);
    return command;
  };
}

/** A command on the accounts of the configured store, with the options that all of these have. */
class StoreCommand extends Command {
  readonly #io: CliIo;
  readonly #setExitCode: SetExitCode;

  constructor(name: string, io: CliIo, setExitCode: SetExitCode) {
    super(name);
    this.#io = io;
    this.#setExitCode = setExitCode;
    this.addOption(configOption(io)).addOption(actorOption(io)).option('--json', 'print the result as JSON');
  }

  /**
   * Sets what the command does. Changes are logged to stderr, because stdout is for the result.
   *
   * @param work gets a session, the arguments of the command, and its options
   */
  run(work: (session: StoreSession, ...args: never[]) => Promise<void>): void {
    const name = `${this.parent?.name()} ${this.name()}`;
    this.action(async (...args: unknown[]) => {
      // The last one is the command itself.
      const own = args.slice(0, -1) as never[];
      const run = (session: StoreSession): Promise<void> => work(session, ...own);
      this.#setExitCode(await carryOut(this.#io, name, this.opts<StoreOptions>(), run));
    });
  }
}

/** @returns the exit code */
async function carryOut(
  io: CliIo,
  name: string,
  options: StoreOptions,
  work: (session: StoreSession) => Promise<void>,
): Promise<number> {
  const who = options.actor ?? userName();
  if (options.actor !== undefined && !actorName.test(who)) {
    await complain(
      io,
      `${name}: --actor or SIDECAR_ACTOR: expected 1 to 100 printable ASCII characters without spaces\n`,
    );
    return exitCodes.usage;
  }
  const loaded = loadSettings(options.config, io.env);
  if (!loaded.ok) return invalidConfiguration(io, loaded.problems);
  const settings = loaded.value.store;
  const { store, vault } = openStore(settings, io.env);
  const log = createLogger('info', { write: (line) => void io.stderr.write(line) });
  const parts: OperationsOptions = { store, vault, clock: io.clock, audit: auditTo(log) };
  const show = (result: unknown, lines: (width: number) => string): Promise<void> =>
    io.stdout.write(options.json ? `${JSON.stringify(result)}\n` : lines(io.stdout.width));
  const showList: StoreSession['showList'] = (items, layout) =>
    options.json ? writeArray(io.stdout, items) : writeTable(io.stdout, items, layout);
  const unreadable: AccountsError[] = [];
  try {
    const operations = new Operations(parts);
    const actor = `user:${who}`;
    const leaveOut = (error: AccountsError): void => void unreadable.push(error);
    await work({ ...parts, io, operations, settings, actor, show, showList, unreadable: leaveOut });
    for (const error of unreadable) await complain(io, `${name}: ${error.message} (${error.code})\n`);
    return unreadable.length === 0 ? exitCodes.done : exitCodes.configuration;
  } catch (error) {
    if (error instanceof AccountsError) {
      await complain(io, `${name}: ${error.message} (${error.code})\n`);
      return isConfiguration(error, settings) ? exitCodes.configuration : exitCodes.failed;
    }
    if (!(error instanceof CommandFailed)) throw error;
    await complain(io, `${name}: ${error.message}\n`);
    return error.exitCode;
  } finally {
    await store.close();
  }
}

const misconfigured: ReadonlySet<AccountsErrorCode> = new Set<AccountsErrorCode>([
  'master_key_missing',
  'master_key_wrong',
  'master_key_not_configured',
  'store_invalid',
]);

/** Whether the configuration or the accounts' file must be corrected. An unreachable database may recover. */
function isConfiguration({ code }: AccountsError, { kind }: StoreSettings): boolean {
  return misconfigured.has(code) || (kind === 'file' && code === 'store_unavailable');
}

/** In containers the user may have no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? 'unknown');
  }
}

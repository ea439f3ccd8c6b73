import { hostname, userInfo } from 'node:os';
import { Command, type Option } from 'commander';
import { AccountsError, type AccountsErrorCode } from '../accounts/accounts-error.ts';
import { Operations, type OperationsOptions } from '../accounts/operations.ts';
import type { StoreSettings } from '../config/config.ts';
import { loadCommandStore, openStore } from '../config/command-store.ts';
import { auditTo } from '../telemetry/change-log.ts';
import { createLogger, type Logger } from '../telemetry/logger.ts';
import { CommandFailed, printError, problemLines, valid, withCode } from './failures.ts';
import { exitCodes, type CliIo } from './io.ts';
import { writeArray, writeTable, type Layout } from './table.ts';
import { actorOption, configOption } from './options.ts';

/** The dependencies of a command that works on accounts. */
export interface StoreSession
  extends Omit<OperationsOptions, 'vault'>, Pick<ReturnType<typeof openStore>, 'keyring' | 'masterKeys' | 'vault'> {
  readonly io: CliIo;
  readonly operations: Operations;
  /** The settings of the store. */
  readonly settings: StoreSettings;
  /** The user who runs the command, for the audit trail. */
  readonly actor: string;
  /** The log, which writes to stderr. */
  readonly log: Logger;
  /** The operating system's user and host, regardless of the actor. */
  readonly origin: string;
  /** Whether results are printed as JSON. */
  readonly json: boolean;
  /** Writes a result to stdout: as JSON with `--json`, otherwise as these lines. */
  readonly show: (result: unknown, lines: () => string) => Promise<void>;
  /** Writes a list to stdout while it is read: as a JSON array with `--json`, otherwise as a table. */
  readonly showList: <Item>(items: Items<Item>, layout: Layout<Item>) => Promise<void>;
  /** Records an account that is left out because it cannot be read. At its end, the command names all such accounts and fails. */
  readonly unreadable: (error: AccountsError) => void;
}

/** Items as they are read, or all of them at once. */
type Items<Item> = AsyncIterable<Item> | Promise<readonly Item[]>;

/** The options of every command that works on accounts. */
interface StoreOptions {
  readonly config: string;
  readonly json?: true;
  readonly actor?: string;
}

/** Runs the work of a command and sets the exit code. Error messages begin with `name`. */
export type RunCommand = (name: string, work: () => Promise<number | void>) => Promise<void>;

/** How a command uses the store. A command that only reads has no `--actor`. */
type Access = 'reads' | 'changes';

/** Adds a command to a group. The command changes accounts unless `access` is `reads`. */
export type AddStoreCommand = (name: string, description: string, access?: Access) => StoreCommand;

export function storeCommands(group: Command, io: CliIo, runCommand: RunCommand): AddStoreCommand {
  return (name, description, access = 'changes') => {
    const command = new StoreCommand(name, io, runCommand, access)
      .description(description)
      .copyInheritedSettings(group);
    group.addCommand(command);
    return command;
  };
}

/** A command on the accounts of the configured store, with the options that all such commands have. */
class StoreCommand extends Command {
  readonly #io: CliIo;
  readonly #runCommand: RunCommand;
  readonly #access: Access;

  constructor(name: string, io: CliIo, runCommand: RunCommand, access: Access) {
    super(name);
    this.#io = io;
    this.#runCommand = runCommand;
    this.#access = access;
    this.addOption(configOption(io)).option('--json', 'print the result as JSON');
    if (access === 'changes') this.addOption(actorOption(io));
  }

  /** Called by commander for the first missing option. Reports all missing options and arguments. */
  missingMandatoryOptionValue(_first: Option): void {
    const options = this.options.filter(
      (option) => option.mandatory && this.getOptionValue(option.attributeName()) === undefined,
    );
    const given = this.registeredArguments.filter(({ required }, i) => required && this.args[i] === undefined);
    const missing = [...options.map(({ flags }) => `'${flags}'`), ...given.map((each) => `'<${each.name()}>'`)];
    this.error(`error: missing: ${missing.join(', ')}`, { code: 'commander.missingMandatoryOptionValue' });
  }

  /** The options for the store. A command that only reads may define an `--actor` of its own, which is left out here. */
  #storeOptions(): StoreOptions {
    const { config, json, actor } = this.opts<StoreOptions>();
    return { config, ...(json && { json }), ...(this.#access === 'changes' && actor !== undefined && { actor }) };
  }

  /**
   * Sets the work of the command. Changes are logged to stderr, because stdout is for the result.
   *
   * @param work receives a session, the arguments of the command, and its options
   * @param offline called first. If it returns a promise, that promise is the command's work, and no store is opened
   */
  run(
    work: (session: StoreSession, ...args: never[]) => Promise<void>,
    offline: (io: CliIo, options: never) => Promise<void> | undefined = () => undefined,
  ): void {
    const name = `${this.parent?.name()} ${this.name()}`;
    this.action((...args: unknown[]) => {
      // The last argument is the command itself.
      const own = args.slice(0, -1) as never[];
      return this.#runCommand(
        name,
        () =>
          offline(this.#io, this.opts() as never) ??
          onStore(this.#io, this.#storeOptions(), (session) => work(session, ...own)),
      );
    });
  }
}

/** Opens the configured store and runs the work of a command on it. @throws CommandFailed */
async function onStore(
  io: CliIo,
  { config, json, actor: givenActor }: StoreOptions,
  work: (session: StoreSession) => Promise<void>,
): Promise<void> {
  const user = userName();
  const origin = `${user}@${hostname()}`;
  const actor = `user:${givenActor === undefined ? user : checkedActor(givenActor)}`;
  const { value: configured, warnings } = valid(loadCommandStore(config, io.env));
  const { settings } = configured;
  for (const line of problemLines(warnings)) await printError(io, `warning: ${line}\n`);
  const { store, vault, keyring, masterKeys } = openStore(configured, io.env, io.keyring, origin);
  // Nothing is logged to a terminal, because the log's JSON lines would be mixed with the results.
  const log = createLogger('info', { write: (line) => void (io.stderr.isTerminal || io.stderr.write(line)) });
  const { maxKeyAge } = settings;
  const parts = { store, vault, clock: io.clock, audit: auditTo(log), maxKeyAge };
  const show: StoreSession['show'] = (result, lines) => io.stdout.write(json ? `${JSON.stringify(result)}\n` : lines());
  const showList: StoreSession['showList'] = async (items, layout) => {
    const all = items instanceof Promise ? await items : items;
    await (json ? writeArray(io.stdout, all) : writeTable(io.stdout, all, layout));
  };
  const leftOut: AccountsError[] = [];
  const unreadable = (error: AccountsError): void => void leftOut.push(error);
  try {
    await work({
      ...parts,
      keyring,
      masterKeys,
      io,
      json: json === true,
      operations: new Operations(parts),
      settings,
      actor,
      origin,
      log,
      show,
      showList,
      unreadable,
    });
  } catch (error) {
    if (!(error instanceof AccountsError)) throw error;
    throw new CommandFailed(
      withCode(error),
      isConfiguration(error, settings) ? exitCodes.configuration : exitCodes.failed,
    );
  } finally {
    await store.close();
  }
  if (leftOut.length > 0) throw new CommandFailed(leftOut.map(withCode), exitCodes.configuration);
}

function checkedActor(name: string): string {
  if (/^[!-~]{1,100}$/.test(name)) return name;
  const message = '--actor or SIDECAR_ACTOR: expected 1 to 100 printable ASCII characters without spaces';
  throw new CommandFailed(message, exitCodes.usage);
}

/** Error codes that end a command with exit code 78, because the configuration or the accounts file must be corrected. */
export const misconfigured: ReadonlySet<AccountsErrorCode> = new Set<AccountsErrorCode>([
  'master_key_missing',
  'master_key_wrong',
  'master_key_not_configured',
  'audit_key_missing',
  'store_invalid',
]);

/** Whether the configuration or the accounts file must be corrected. A database that is unavailable may recover by itself. */
function isConfiguration({ code }: AccountsError, { type }: StoreSettings): boolean {
  return misconfigured.has(code) || (type === 'file' && code === 'store_unavailable');
}

/** The name of the user who runs the command. In containers, the user may have no name; the user id is used instead. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? 'unknown');
  }
}

import { readFileSync } from 'node:fs';
import { runCommand, type CommandSetup, type Ended } from './cli.ts';
import { Folder, sidecarFile } from './folder.ts';

/** Runs commands on one configuration in this process. */
export interface CommandLine {
  /** Runs a command line, which is split at its spaces. `more` are further arguments, which may contain spaces. */
  readonly run: (line: string, ...more: readonly string[]) => Promise<Ended>;
  /** Runs a command line with `--json` and returns what it prints. @throws Error with stderr if the command fails */
  readonly json: <T>(line: string) => Promise<T>;
}

/** The time at which all commands of `commandLine` run, unless `setup` has another clock. */
const now = Date.parse('2026-11-21T10:00:59Z');

/** Returns the commands on this configuration file. */
export function commandsOn(config: string, setup: CommandSetup = {}): CommandLine {
  const run: CommandLine['run'] = (line, ...more) =>
    runCommand([...line.split(' '), ...more, '--config', config], setup);
  const json = async <T>(line: string): Promise<T> => {
    const { code, stdout, stderr } = await run(line, '--json');
    if (code !== 0) throw new Error(stderr);
    return JSON.parse(stdout) as T;
  };
  return { run, json };
}

/** Creates a configuration, by default without accounts, and returns the commands on it. */
export function commandLine(accounts: unknown = 'accounts: []\n', setup: CommandSetup = {}) {
  const folder = new Folder({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1'), 'accounts.yaml': accounts });
  return {
    folder,
    ...commandsOn(folder.file('sidecar.yaml'), { clock: () => now, ...setup }),
    file: () => readFileSync(folder.file('accounts.yaml'), 'utf8'),
  };
}

/** Like `commandLine`, but with the account `acme`, which has no keys and no encryption. */
export async function withAcme(setup?: CommandSetup): Promise<ReturnType<typeof commandLine>> {
  const acme = commandLine(undefined, setup);
  await acme.run('accounts add acme --name', 'Acme Stores');
  return acme;
}

/** The lines of an output that ends with a newline. */
export const lines = (text: string): string[] => text.split('\n').slice(0, -1);

import { readFileSync } from 'node:fs';
import { runCommand, type CommandSetup, type Ended } from './cli.ts';
import { Folder, sidecarFile } from './folder.ts';

/** The commands on one configuration, run in this process. */
export interface CommandLine {
  /** Runs a line, which is split at its spaces, and the arguments that have spaces in them. */
  readonly run: (line: string, ...more: readonly string[]) => Promise<Ended>;
  /** Runs a line with `--json` and returns what it prints. @throws Error with stderr if the command fails */
  readonly json: <T>(line: string) => Promise<T>;
}

/** The time at which all commands of `commandLine` run. */
const now = Date.parse('2026-11-21T10:00:59Z');

/** The commands on this configuration file. */
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

/** A configuration without accounts, and the commands on it. */
export function commandLine(accounts: unknown = 'accounts: []\n', setup: CommandSetup = {}) {
  const folder = new Folder({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1'), 'accounts.yaml': accounts });
  return {
    folder,
    ...commandsOn(folder.file('sidecar.yaml'), { clock: () => now, ...setup }),
    file: () => readFileSync(folder.file('accounts.yaml'), 'utf8'),
  };
}

/** With an account without keys and encryption. */
export async function withAcme(setup?: CommandSetup): Promise<ReturnType<typeof commandLine>> {
  const acme = commandLine(undefined, setup);
  await acme.run('accounts add acme --name', 'Acme Stores');
  return acme;
}

/** The lines of an output that ends with a newline. */
export const lines = (text: string): string[] => text.split('\n').slice(0, -1);

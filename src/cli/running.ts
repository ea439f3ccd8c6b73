import { isIPv6 } from 'node:net';
import { text } from 'node:stream/consumers';
import { drainTokenFile, readDrainToken } from '../admin/drain-token.ts';
import type { Status } from '../admin/status.ts';
import type { Listener } from '../config/config.ts';
import { loadAdmin } from '../config/load.ts';
import { http } from '../http.ts';
import { CommandFailed, valid } from './failures.ts';
import { exitCodes, type CliIo } from './io.ts';
import { members } from './table.ts';

// Commands for a running sidecar, whose address is read from its configuration. The sidecar must run on the same machine and as the same
// user. The commands throw CommandFailed if the sidecar cannot be reached or refuses the command.

interface Options {
  readonly config: string;
  readonly json?: true;
}

/**
 * `drain`: drains the sidecar. Returns when no request is in flight or `timeouts.drain` has passed. The sidecar keeps running until
 * SIGTERM.
 */
export async function drain(io: CliIo, { config, json }: Options): Promise<void> {
  const status = await askSidecar(io, config, 'drain');
  const verb = status.in_flight === 1 ? 'is' : 'are';
  const rest = `${status.in_flight} of its requests ${verb} still in flight: timeouts.drain has expired`;
  const outcome = status.in_flight === 0 ? 'no request is in flight' : rest;
  await show(io, json, status, () => `The sidecar is draining and not ready; ${outcome}.\n`);
}

/** `status`: shows the state of the sidecar and of its files. */
export async function status(io: CliIo, { config, json }: Options): Promise<void> {
  const found = await askSidecar(io, config, 'status');
  await show(io, json, found, () => statusText(found));
}

/** `reload`: makes the sidecar load its files again, without waiting for a change. Returns the exit code. */
export async function reload(io: CliIo, { config, json }: Options): Promise<number> {
  const found = await askSidecar(io, config, 'reload');
  await show(io, json, found, () => filesText(found));
  return listProblems(found).length === 0 ? exitCodes.done : exitCodes.configuration;
}

async function show({ stdout }: CliIo, json: true | undefined, found: Status, lines: () => string): Promise<void> {
  await stdout.write(json ? `${JSON.stringify(found)}\n` : lines());
}

function statusText(found: Status): string {
  const { version, ready, in_flight: inFlight, connections, database } = found;
  return `${members({
    version,
    ready: ready ? 'yes' : 'no',
    'in flight': String(inFlight),
    connections: String(connections),
    database: database === null ? undefined : database ? 'connected' : 'not connected',
    ...fileMembers(found),
  })}${problemsText(found)}`;
}

function filesText(found: Status): string {
  return `${members(fileMembers(found))}${problemsText(found)}`;
}

/** Whether the content of each file is in force, and which changed members need a restart. */
function fileMembers({ configuration, accounts_file: accounts, needs_restart: needsRestart }: Status) {
  const state = (file: Status['configuration']): string | undefined => {
    if (file === null) return undefined;
    const { in_force: isInForce, loaded_at: loadedAt } = file;
    return isInForce ? `in force ${loadedAt}` : `not in force: the last valid version is that of ${loadedAt}`;
  };
  const restart = needsRestart.join(', ') || undefined;
  return { configuration: state(configuration), accounts: state(accounts), 'needs restart': restart };
}

/** The problems of the files whose content is not in force. */
function problemsText(found: Status): string {
  return listProblems(found)
    .map((problem) => `${problem}\n`)
    .join('');
}

function listProblems({ configuration, accounts_file: accounts }: Status): readonly string[] {
  return [...(configuration?.problems ?? []), ...(accounts?.problems ?? [])];
}

/** Sends a command to the sidecar. @throws CommandFailed */
async function askSidecar({ env }: CliIo, configFile: string, command: 'drain' | 'reload' | 'status'): Promise<Status> {
  const { host, port } = valid(loadAdmin(configFile, env)).value;
  // If there is no token, the sidecar may not be running. The request will show whether it is.
  const token = (await readToken(drainTokenFile(configFile, env))) ?? '';
  const address = { host: toLoopback(host), port };
  const { status, body } = await post(address, `/${command}`, token);
  if (status === 200) return JSON.parse(body) as Status;
  if (status === 403) throw new CommandFailed(`the sidecar at ${formatted(address)} refused: ${body.trim()}`);
  throw notReached(address, `it responded with status ${status}`);
}

/** The error for a sidecar that does not respond at the address in the file. A running sidecar keeps the address that it started with. */
function notReached(address: Listener, reason: string): CommandFailed {
  const advice = 'if "admin" has changed since the sidecar started, restart the sidecar, or restore the address';
  return new CommandFailed(`no sidecar at ${formatted(address)}: ${reason} (${advice})`);
}

function formatted({ host, port }: Listener): string {
  return `${isIPv6(host) ? `[${host}]` : host}:${port}`;
}

/**
 * The address for requests to the admin listener. It is loopback if the listener listens on all addresses, because the listener accepts
 * commands only from loopback.
 */
function toLoopback(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

async function readToken(file: string): Promise<string | undefined> {
  try {
    return await readDrainToken(file);
  } catch (error) {
    throw new CommandFailed(`cannot read the token: ${(error as Error).message}`);
  }
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

function post(address: Listener, path: string, token: string): Promise<Answer> {
  const headers = { Authorization: `Bearer ${token}` };
  return new Promise((resolve, reject) => {
    // If a host name has several addresses, the error's message is empty.
    const fail = ({ message, code, name }: NodeJS.ErrnoException): void =>
      reject(notReached(address, message || (code ?? name)));
    http
      .request({ ...address, path, method: 'POST', headers, agent: false }, (res) => {
        text(res).then((body) => resolve({ status: res.statusCode ?? 0, body }), fail);
      })
      .on('error', fail)
      .end();
  });
}

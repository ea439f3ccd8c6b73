import { drainTokenFile, readDrainToken } from '../admin/drain-token.ts';
import { loadAdmin } from '../config/load.ts';
import { http } from '../http.ts';
import { CommandFailed, valid } from './failures.ts';
import type { CliIo } from './io.ts';

/**
 * `drain`: begins the drain of the sidecar that runs on this configuration and returns when nothing is in flight or
 * `timeouts.drain` is over. The process runs until SIGTERM.
 *
 * @throws CommandFailed if the sidecar cannot be reached or does not drain
 */
export async function drain({ env }: CliIo, configFile: string): Promise<void> {
  const { host, port } = valid(loadAdmin(configFile, env)).value;
  // Without a token there may be no sidecar; the request will show that.
  const token = (await readToken(drainTokenFile(configFile, env))) ?? '';
  const status = await post(loopbackOf(host), port, token);
  if (status !== 200) throw new CommandFailed(`the admin listener responded with status ${status}`);
}

/** The address of the admin listener: loopback if it listens on all addresses, because it accepts a drain only from there. */
function loopbackOf(host: string): string {
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

/** @returns the status of the response */
function post(host: string, port: number, token: string): Promise<number> {
  const headers = { Authorization: `Bearer ${token}` };
  return new Promise((resolve, reject) => {
    http
      .request({ host, port, path: '/drain', method: 'POST', headers, agent: false }, (res) => {
        res.resume();
        resolve(res.statusCode ?? 0);
      })
      // If a name has several addresses, the message is empty.
      .on('error', ({ message, code, name }: NodeJS.ErrnoException) =>
        reject(new CommandFailed(message || (code ?? name))),
      )
      .end();
  });
}

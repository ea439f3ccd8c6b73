import { drainTokenFile, readDrainToken } from '../admin/drain-token.ts';
import { loadAdmin } from '../config/load.ts';
import { http } from '../http.ts';
import { complain } from './complain.ts';
import { invalidConfiguration } from './invalid-configuration.ts';
import { exitCodes, type CliIo } from './io.ts';

/**
 * `drain`: begins the drain of the sidecar that runs on this configuration and returns when nothing is in flight or
 * `timeouts.drain` is over. The process runs until SIGTERM. Returns the exit code.
 */
export async function drain(io: CliIo, configFile: string): Promise<number> {
  const admin = loadAdmin(configFile, io.env);
  if (!('port' in admin)) return invalidConfiguration(io, admin);
  const result = await begin(drainTokenFile(configFile, io.env), loopbackOf(admin.host), admin.port);
  if (result === 200) return exitCodes.done;
  await complain(
    io,
    `drain: ${typeof result === 'number' ? `the admin listener responded with status ${result}` : result}\n`,
  );
  return exitCodes.failed;
}

/** The address of the admin listener: loopback if it listens on all addresses, because it accepts a drain only from there. */
function loopbackOf(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

/** @returns the status of the response, or why there is none */
async function begin(tokenFile: string, host: string, port: number): Promise<number | string> {
  try {
    // Without a token there may be no sidecar; the request will show that.
    return await post(host, port, (await readDrainToken(tokenFile)) ?? '');
  } catch (error) {
    return `cannot read the token: ${(error as Error).message}`;
  }
}

function post(host: string, port: number, token: string): Promise<number | string> {
  const headers = { Authorization: `Bearer ${token}` };
  return new Promise((resolve) => {
    http
      .request({ host, port, path: '/drain', method: 'POST', headers, agent: false }, (res) => {
        res.resume();
        resolve(res.statusCode ?? 0);
      })
      // If a name has several addresses, the message is empty.
      .on('error', (error: Error & { code?: string }) => resolve(error.message || (error.code ?? error.name)))
      .end();
  });
}

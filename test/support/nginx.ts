import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { eventually } from './eventually.ts';

/** An nginx for one test. It listens on a socket in its own folder, so no port can be in use already. */
export interface Nginx {
  readonly socketPath: string;
  /** The lines of the access log so far, one for each response of nginx. */
  readonly accessLines: () => string[];
}

// Debian installs nginx in a folder that is not in every user's PATH.
const program = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin']
  .map((folder) => join(folder, 'nginx'))
  .find((file) => existsSync(file));

/** Why nginx cannot run on this machine; undefined if it can. */
export const nginxMissing = program === undefined ? 'nginx not found' : undefined;

/**
 * Starts nginx, which is stopped when the test is over.
 *
 * @param http directives of the `http` block; `@listen@` stands for the address of its `server` blocks
 * @param accessLine the format of a line of the access log
 */
export async function startNginx(http: string, accessLine: string): Promise<Nginx> {
  const folder = mkdtempSync(join(tmpdir(), 'nginx-'));
  const file = (name: string): string => join(folder, name);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${file(name)};`,
  );
  const configuration = `
    daemon off;
    # One process, of the user who runs the test.
    master_process off;
    pid ${file('pid')};
    error_log ${file('error.log')};
    events {}
    http {
      ${temporary.join('\n')}
      log_format line '${accessLine}';
      access_log ${file('access.log')} line;
      ${http.replaceAll('@listen@', `unix:${file('socket')}`)}
    }`;
  writeFileSync(file('nginx.conf'), configuration);
  const child = spawn(program ?? 'nginx', ['-p', folder, '-c', file('nginx.conf'), '-e', file('error.log')], {
    stdio: 'ignore',
  });
  const ended = new Promise((resolve) => void child.once('close', resolve));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
    rmSync(folder, { recursive: true });
  });
  await eventually('nginx accepts connections', () => {
    if (child.exitCode !== null) throw new Error(`nginx has ended: ${readFileSync(file('error.log'), 'utf8')}`);
    return isOpen(file('socket'));
  });
  return {
    socketPath: file('socket'),
    accessLines: () => readFileSync(file('access.log'), 'latin1').split('\n').slice(0, -1),
  };
}

function isOpen(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path }, () => {
      socket.destroy();
      resolve(true);
    }).once('error', () => resolve(false));
  });
}

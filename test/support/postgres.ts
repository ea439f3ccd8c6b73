import { execFile, execFileSync } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { delimiter, join } from 'node:path';
import { tmpdir } from 'node:os';
import { promisify } from 'node:util';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import { migrate } from '../../src/accounts/postgres/migrate.ts';
import { describeUnless } from './describe-unless.ts';

const run = promisify(execFile);

/** Where Debian installs the server's programs, with a folder for each version. */
const versions = '/usr/lib/postgresql';

/** The folder of the server's programs, of the newest version; undefined if PostgreSQL is not installed. */
export const postgresPrograms = [
  ...(process.env['PATH'] ?? '').split(delimiter),
  ...(existsSync(versions) ? readdirSync(versions).toSorted((a, b) => Number(a) - Number(b)) : []).map((version) =>
    join(versions, version, 'bin'),
  ),
].findLast((folder) => existsSync(join(folder, 'initdb')));

/** The server refuses to run as root. If the tests run as root, the server runs as the user that its package has created. */
const owner =
  process.getuid?.() === 0 && postgresPrograms !== undefined ? { uid: idOf('-u'), gid: idOf('-g') } : undefined;

function idOf(flag: '-u' | '-g'): number {
  return Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
}

/** `describe` for tests that need PostgreSQL. Without it, they are skipped and the reason is shown. */
export function describeWithPostgres(name: string, tests: () => void): void {
  describeUnless(postgresPrograms === undefined ? 'PostgreSQL not found' : undefined, name, tests);
}

/** A server for one test file, reached through a socket in its own folder. */
export interface TestPostgres {
  /** Creates a database with empty tables for accounts. Returns its URL. */
  createDatabase(): Promise<string>;
  /** Runs SQL as the owner with psql, and returns its output: unaligned rows. */
  psql(url: string, sql: string): Promise<string>;
  /** Stops the server as a crash would: statements in progress are aborted. */
  stop(): Promise<void>;
  start(): Promise<void>;
  /** Starts a proxy that listens on a port and forwards all data. */
  proxy(url: string): Promise<TestProxy>;
}

/** A proxy to the server that can interrupt the traffic. It is closed when the test is over. */
export interface TestProxy {
  /** The URL of the same database through this proxy. */
  readonly url: string;
  /** Ends all connections and refuses new ones until `mend`. */
  cut(): void;
  /** Stops forwarding, as if the cable were pulled. New connections get no response either. @param one only this connection */
  freeze(one?: Socket): void;
  /** Forwards the clients' bytes, but not the server's. */
  mute(): void;
  /** Holds the server's bytes back until `release` forwards them, in one piece for each connection, the last connection first. */
  hold(): void;
  release(): void;
  /** The bytes held back. */
  readonly held: string;
  /** Ends each connection right after the server is ready for the first statement. The client gets both messages in one piece. */
  endOnceReady(): void;
  /** Forwards everything except notifications, like a pooler that has lent the connection to another client. */
  swallowNotifications(): void;
  /** Ends all connections, and forwards everything from now on. */
  mend(): void;
  /** The number of connections accepted so far. */
  readonly connections: number;
  /** The number of connections that are open, and the highest it has been. */
  readonly open: number;
  readonly most: number;
  /** Called with the clients' bytes before they are forwarded. */
  onSent: ((data: Buffer, client: Socket) => void) | undefined;
}

/** Starts a server before this file's tests and removes it afterwards. Call it outside of tests. */
export function usePostgres(): TestPostgres {
  let server: TestPostgres | undefined;
  let release = (): Promise<void> => Promise.resolve();
  beforeAll(async () => {
    if (postgresPrograms !== undefined) server = await startPostgres((stop) => (release = stop));
  });
  afterAll(() => release());

  const running = (): TestPostgres => {
    if (server === undefined) throw new Error('PostgreSQL has not been started');
    return server;
  };
  return {
    createDatabase: () => running().createDatabase(),
    psql: (url, sql) => running().psql(url, sql),
    start: () => running().start(),
    stop: () => running().stop(),
    proxy: (url) => running().proxy(url),
  };
}

/** Starts a server in a folder of its own. @param defer registers the cleanup that stops the server and removes the folder */
export async function startPostgres(defer: (release: () => Promise<void>) => void): Promise<TestPostgres> {
  const folder = mkdtempSync(join(tmpdir(), 'pg-'));
  const data = join(folder, 'data');
  let databases = 0;
  defer(async () => {
    await stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const urlOf = (database: string): string => `postgres:///${database}?host=${folder}&user=postgres`;

  async function start(): Promise<void> {
    const options = [`-k ${folder}`, '-c listen_addresses=', '-c fsync=off', '-c max_connections=50'].join(' ');
    await asPostgres('pg_ctl', '--pgdata', data, '--wait', '--log', join(folder, 'log'), '-o', options, 'start');
  }

  async function stop(): Promise<void> {
    // The server may have been stopped already.
    await asPostgres('pg_ctl', '--pgdata', data, '--wait', '--mode=immediate', 'stop').catch(() => {});
  }

  async function psql(url: string, sql: string): Promise<string> {
    const args = ['-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-d', url, '-c', sql];
    const { stdout } = await run(join(postgresPrograms ?? '', 'psql'), args);
    return stdout.trim();
  }

  if (owner !== undefined) chownSync(folder, owner.uid, owner.gid);
  const options = ['--auth=trust', '--username=postgres', '--encoding=UTF8', '--no-locale', '--no-sync'];
  await asPostgres('initdb', '--pgdata', data, ...options);
  await start();
  await psql(urlOf('postgres'), 'CREATE DATABASE template');
  await migrate(urlOf('template'), () => {});
  return {
    createDatabase: async () => {
      databases += 1;
      const name = `test${databases}`;
      await psql(urlOf('postgres'), `CREATE DATABASE ${name} TEMPLATE template`);
      return urlOf(name);
    },
    psql,
    start,
    stop,
    proxy: (url) => startProxy(join(folder, '.s.PGSQL.5432'), new URL(url).pathname.slice(1)),
  };
}

async function asPostgres(program: string, ...args: readonly string[]): Promise<void> {
  // Programs do not run in the repository, because the server's user may not be allowed to read it.
  await run(join(postgresPrograms ?? '', program), args, { cwd: tmpdir(), ...owner });
}

/** The type of a NotificationResponse, "A", in the server's protocol. */
const notificationResponse = 0x41;

/** A ReadyForQuery message, outside a transaction. */
const ready = Buffer.from('Z\0\0\0\x05I', 'latin1');

/** An ErrorResponse message, as after `pg_terminate_backend`. */
const terminated = (() => {
  const fields = ['SFATAL', 'VFATAL', 'C57P01', 'Mterminating connection due to administrator command'].join('\0');
  const body = Buffer.from(`${fields}\0\0`, 'latin1');
  const head = Buffer.from('E\0\0\0\0', 'latin1');
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
})();

async function startProxy(socketPath: string, database: string): Promise<TestProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let state: 'open' | 'cut' | 'frozen' | 'mute' | 'held' | 'without news' | 'ending' = 'open';
  let held: { readonly client: Socket; readonly data: Buffer }[] = [];
  let frozen: Socket | undefined;
  let connections = 0;
  let most = 0;
  const server = createServer((client) => {
    if (state === 'cut') {
      client.destroy();
      return;
    }
    connections += 1;
    const upstream = connect(socketPath);
    const pair = [client, upstream] as const;
    pairs.add(pair);
    most = Math.max(most, pairs.size);
    client.on('data', (data: Buffer) => {
      proxy.onSent?.(data, client);
      if (state !== 'frozen' && state !== 'cut' && client !== frozen) upstream.write(data);
    });
    upstream.on('data', (data: Buffer) => {
      if (state === 'held') held.push({ client, data });
      if (state === 'ending') {
        if (data.subarray(-ready.length).equals(ready)) client.end(Buffer.concat([data, terminated]));
        else client.write(data);
      }
      const isNews = data[0] === notificationResponse;
      const isForwarded = state === 'open' || (state === 'without news' && !isNews);
      if (isForwarded && client !== frozen) client.write(data);
    });
    for (const [side, other] of [pair, pair.toReversed()] as const) {
      side?.on('error', () => {});
      side?.on('close', () => {
        pairs.delete(pair);
        other?.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const endAll = (): void => {
    for (const [client, upstream] of pairs) {
      client.destroy();
      upstream.destroy();
    }
  };
  onTestFinished(() => {
    server.close();
    endAll();
  });
  const proxy: TestProxy = {
    url: `postgres://postgres@127.0.0.1:${(server.address() as AddressInfo).port}/${database}`,
    cut: () => {
      state = 'cut';
      endAll();
    },
    freeze: (one) => {
      if (one === undefined) state = 'frozen';
      else frozen = one;
    },
    mute: () => {
      state = 'mute';
    },
    hold: () => {
      state = 'held';
    },
    release: () => {
      const byClient = Map.groupBy(held.toReversed(), ({ client }) => client);
      for (const [client, pieces] of byClient) client.write(Buffer.concat(pieces.toReversed().map(({ data }) => data)));
      held = [];
      state = 'open';
    },
    get held() {
      return held.map(({ data }) => data.toString('latin1')).join('');
    },
    endOnceReady: () => {
      state = 'ending';
    },
    swallowNotifications: () => {
      state = 'without news';
    },
    mend: () => {
      state = 'open';
      endAll();
    },
    get open() {
      return pairs.size;
    },
    get most() {
      return most;
    },
    get connections() {
      return connections;
    },
    onSent: undefined,
  };
  return proxy;
}

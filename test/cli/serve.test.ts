import { createServer } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { mkdirSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { formatFileProblem } from '../../src/yaml/file-problem.ts';
import { newCertificate } from '../config/files.ts';
import { envelopeOf, opened, send, type Response } from '../support/client.ts';
import { sourceProgram, startCommand, startServe, type Serving } from '../support/command.ts';
import { openConnection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import {
  accountsFile,
  acmeEntry,
  Folder,
  globexEntry,
  MountedFolder,
  sidecarFile,
  type Contents,
} from '../support/folder.ts';
import { listen } from '../support/listen.ts';
import { acmeLive, acmeTest, keys } from '../support/sidecar.ts';
import { startUpstream, type TestUpstream } from '../support/upstream.ts';
import { samplesOf } from '../telemetry/samples.ts';

/** Starts a sidecar in its own process in front of this upstream. Also returns the folder that it watches. */
async function serveBefore(
  upstream: Pick<TestUpstream, 'origin'>,
  more: Contents = {},
): Promise<{ sidecar: Serving; folder: Folder }> {
  const folder = new Folder({
    'sidecar.yaml': sidecarFile(upstream.origin, more),
    'accounts.yaml': accountsFile(globexEntry(keys.globex)),
  });
  return { sidecar: await startServe(folder.file('sidecar.yaml')), folder };
}

/** The lines that `check` prints for the configuration in a folder. */
function problemsOf(folder: Folder): string[] {
  const loaded = loadConfig(folder.file('sidecar.yaml'), {});
  return loaded.ok ? [] : loaded.problems.map(formatFileProblem);
}

async function statusWith(sidecar: Serving, key: string): Promise<number> {
  return (await send(sidecar, 'GET /x', { key })).status;
}

/** Node options that run this module before the program. */
function preloaded(source: string): string[] {
  return ['--import', `data:text/javascript,${encodeURIComponent(source)}`];
}

/** Node options that make each loading thread fail as long as there is a file `break` in the folder. */
function breakOffOnceThere(folder: Folder): string[] {
  return preloaded(`import { isMainThread } from 'node:worker_threads';
    import { existsSync } from 'node:fs';
    if (!isMainThread && existsSync('${folder.file('break')}')) throw new TypeError('secret canary');`);
}

const ended = { code: 0, signal: null };

describe('serve', () => {
  test('logs a line for each listener with its bound address', async () => {
    const { sidecar } = await serveBefore(await startUpstream());
    const line = (listener: string): object => ({
      level: 'info',
      time: expect.any(String) as string,
      listener,
      address: '127.0.0.1',
      port: expect.any(Number) as number,
      msg: 'listening',
    });
    expect(sidecar.log.slice(1)).toEqual([line('admin'), line('merchants')]);
    expect(await statusWith(sidecar, keys.globex)).toBe(200);
    expect((await fetch(`${sidecar.adminUrl}/readyz`)).status).toBe(200);
    expect(sidecar.stderr).toBe('');
  });

  test('reads config/sidecar.yaml in the working directory, or the file that SIDECAR_CONFIG names', async () => {
    const folder = new Folder({});
    for (const name of ['config', 'other']) {
      mkdirSync(folder.file(name));
      const contents = sidecarFile('http://127.0.0.1:1', {
        listen: { host: name === 'config' ? '::1' : '127.0.0.1', port: 0 },
      });
      folder.write({ [`${name}/sidecar.yaml`]: contents, [`${name}/accounts.yaml`]: accountsFile() });
    }
    const addressOf = async (env: Record<string, string>): Promise<unknown> => {
      const sidecar = startCommand(['serve'], { cwd: folder.path, env });
      const listening = await sidecar.untilEntries('listening', 2);
      return listening[1]?.['address'];
    };
    expect(await addressOf({})).toBe('::1');
    expect(await addressOf({ SIDECAR_CONFIG: 'other/sidecar.yaml' })).toBe('127.0.0.1');
  });

  test('logs warnings of the configuration and starts', async () => {
    const other = { ...acmeEntry, id: 'other', keys: [] };
    const folder = new Folder({
      'sidecar.yaml': sidecarFile('http://127.0.0.1:1'),
      'accounts.yaml': accountsFile(acmeEntry, other),
    });
    const sidecar = await startServe(folder.file('sidecar.yaml'));
    const logged = (problem: string): object =>
      expect.objectContaining({
        level: 'warn',
        problem: expect.stringContaining(problem) as string,
        msg: 'configuration',
      }) as object;
    expect(sidecar.log).toEqual(
      expect.arrayContaining([
        logged('accounts  warning: 2 accounts have credentials in the clear'),
        logged('accounts[1].encryption.test.key  warning: the same key'),
      ]),
    );
  });

  test('exits with 78 and all problems on stderr if the configuration is invalid', async () => {
    const folder = new Folder({
      'sidecar.yaml': 'listen: {}\nenvironments: {}\naccounts: { file: accounts.yaml }\nsurplus: 1\n',
      'accounts.yaml': 'accounts:\n  - { id: a b, name: A }\n',
    });
    const sidecar = startCommand(['serve', '--config', folder.file('sidecar.yaml')]);
    expect(await sidecar.ended()).toEqual({ code: 78, signal: null });
    expect(sidecar.stdout).toBe('');
    expect(sidecar.stderr.split('\n')).toEqual([...problemsOf(folder), '']);
    expect(problemsOf(folder)).toHaveLength(3);
  });

  test('exits with 78 and one line on stderr if reading the configuration fails unexpectedly', async () => {
    const folder = new Folder({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1'), break: '' });
    const file = folder.file('sidecar.yaml');
    const sidecar = startCommand(['serve', '--config', file], { nodeOptions: breakOffOnceThere(folder) });
    expect(await sidecar.ended()).toEqual({ code: 78, signal: null });
    expect(sidecar.stderr).toBe(`${file}:1:1  .  loading failed (TypeError): run "check" for details\n`);
  });

  test('loads no module that is needed only by other commands, the configuration thread or disabled features', async () => {
    const listing = `import { writeSync } from 'node:fs';
      import { isMainThread } from 'node:worker_threads';
      import { registerHooks } from 'node:module';
      const load = (url, context, next) => (writeSync(2, url + '\\n'), next(url, context));
      if (isMainThread) registerHooks({ load });
      if (isMainThread) process.on('exit', () => writeSync(2, process.moduleLoadList.join('\\n')));`;
    const { origin } = await startUpstream();
    const folder = new Folder({
      'sidecar.yaml': sidecarFile(origin),
      'accounts.yaml': accountsFile(globexEntry(keys.globex)),
    });
    const setup = { program: sourceProgram, nodeOptions: preloaded(listing) };
    const sidecar = await startServe(folder.file('sidecar.yaml'), setup);
    expect(await statusWith(sidecar, keys.globex)).toBe(200);
    await sidecar.signal('SIGTERM').ended();
    const modules = sidecar.stderr.replace(/.*\/node_modules\//g, '');
    expect(modules).toMatch(/^pino\//m);
    expect(modules).toMatch(/^NativeModule _http_server$/m);
    expect(modules).not.toMatch(/^(?:zod|yaml|fastify|pg|node-pg-migrate)\//m);
    expect(modules).not.toMatch(/undici|sqlite/);
  });

  test.each([
    ['merchants', 'listen'],
    ['admin', 'admin'],
  ])('exits with 1 and one line on stderr if the port for %s is taken', async (listener, member) => {
    const taken = createServer();
    const port = await listen(taken);
    const folder = new Folder({
      'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { [member]: { host: '127.0.0.1', port } }),
      'accounts.yaml': accountsFile(),
    });
    const sidecar = startCommand(['serve', '--config', folder.file('sidecar.yaml')]);
    expect(await sidecar.ended()).toEqual({ code: 1, signal: null });
    expect(sidecar.stderr).toBe(
      `serve: the ${listener} listener: listen EADDRINUSE: address already in use 127.0.0.1:${port}\n`,
    );
  });

  test('reads secrets from variables and from files', async () => {
    const upstream = await startUpstream();
    const folder = new Folder({
      'sidecar.yaml': sidecarFile('${CORE}'),
      'accounts.yaml': accountsFile({
        ...acmeEntry,
        keys: [{ id: 'acme-0', key: '${API_KEY}', createdAt: '2026-11-01' }],
        encryption: { test: { enabled: true, key: { file: 'aes-key' }, iv: { file: 'aes-iv' } } },
      }),
      'aes-key': `${acmeTest.key}\n`,
      'aes-iv': acmeTest.iv,
    });
    const sidecar = await startServe(folder.file('sidecar.yaml'), {
      env: { API_KEY: keys.acme, CORE: upstream.origin },
    });
    const body = envelopeOf(acmeTest, '{"amount":1}');
    expect(opened(acmeTest, await send(sidecar, 'POST /api/s2s/charge', { key: keys.acme, body }))).toBe('{"ok":true}');
    expect(upstream.seen[0]?.body).toBe('{"amount":1}');
    expect(sidecar.stdout).not.toContain(acmeTest.key);
  });
});

describe('a signal', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    '%s completes requests in flight, then the process exits with 0',
    async (name) => {
      const held: (() => void)[] = [];
      const upstream = await startUpstream((_seen, res) => held.push(() => res.end('at last')));
      const { sidecar } = await serveBefore(upstream);
      const response = send(sidecar, 'GET /x', { key: keys.globex });
      await eventually('the upstream has the request', () => held.length === 1);
      sidecar.signal(name);
      await sidecar.untilEntries('draining');
      expect((await fetch(`${sidecar.adminUrl}/readyz`)).status).toBe(503);
      held[0]?.();
      expect((await response).body).toBe('at last');
      expect(await sidecar.ended()).toEqual(ended);
    },
  );

  test('SIGTERM aborts requests in flight after timeouts.drain', async () => {
    const upstream = await startUpstream(() => {});
    const { sidecar } = await serveBefore(upstream, { timeouts: { drain: '100ms' } });
    const response = send(sidecar, 'GET /x', { key: keys.globex }).catch(() => 'broken off');
    await eventually('the upstream has the request', () => upstream.heads() === 1);
    expect(await sidecar.signal('SIGTERM').ended()).toEqual(ended);
    expect(await response).toBe('broken off');
    expect(sidecar.entries('request')).toMatchObject([{ status: 444, closed: 'drain' }]);
  });

  test('SIGTERM does not prevent a key from being revoked: its response in progress is aborted', async () => {
    const upstream = await startUpstream((_seen, res) => void res.write('begun'));
    const { sidecar, folder } = await serveBefore(upstream, { timeouts: { drain: '1h' } });
    const response = send(sidecar, 'GET /x', { key: keys.globex }).catch(() => 'broken off');
    await eventually('the upstream has the request', () => upstream.heads() === 1);
    sidecar.signal('SIGTERM');
    await sidecar.untilEntries('draining');
    folder.replace({ 'accounts.yaml': accountsFile() });
    expect(await response).toBe('broken off');
    expect(await sidecar.ended()).toEqual(ended);
    expect(sidecar.entries('request')).toMatchObject([{ closed: 'revoked' }]);
  });

  test('received while the configuration is read ends the process with 0, unless it is SIGHUP', async () => {
    const folder = new Folder({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1'), 'accounts.yaml': accountsFile() });
    const sidecar = startCommand(['serve', '--config', folder.file('sidecar.yaml')], {
      nodeOptions: preloaded(`import { isMainThread } from 'node:worker_threads';
        import { writeSync } from 'node:fs';
        if (!isMainThread) {
          writeSync(2, 'reading');
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20_000);
        }`),
    });
    await sidecar.until(() => sidecar.stderr === 'reading');
    expect(await sidecar.signal('SIGHUP').signal('SIGTERM').ended()).toEqual(ended);
    expect(sidecar.stdout).toBe('');
  });

  test('that is repeated ends the process at once with 1', async () => {
    const upstream = await startUpstream(() => {});
    // Make the drain longer than the timeout of this test.
    const { sidecar } = await serveBefore(upstream, { timeouts: { drain: '1h' } });
    void send(sidecar, 'GET /x', { key: keys.globex }).catch(() => {});
    await eventually('the upstream has the request', () => upstream.heads() === 1);
    sidecar.signal('SIGTERM');
    await sidecar.untilEntries('draining');
    expect(await sidecar.signal('SIGINT').ended()).toEqual({ code: 1, signal: null });
  });
});

describe('a reload', () => {
  const ok = 'envelope_sidecar_config_reloads_total{file="accounts",outcome="ok"}';
  const failed = 'envelope_sidecar_config_reloads_total{file="accounts",outcome="failed"}';
  const at = 'envelope_sidecar_config_last_reload_success_timestamp_seconds{file="accounts"}';

  test('by SIGHUP is logged and counted', async () => {
    const { sidecar } = await serveBefore(await startUpstream());
    const before = await samplesOf(sidecar);
    sidecar.signal('SIGHUP');
    await sidecar.untilEntries('configuration reloaded');
    const { values } = await samplesOf(sidecar);
    expect([before.values.get(ok), values.get(ok), values.get(failed)]).toEqual([0, 1, 0]);
    expect(values.get(at)).toBeGreaterThan(before.values.get(at) ?? NaN);
  });

  test('that is requested while listeners are opened happens once the sidecar runs', async () => {
    const folder = new Folder({
      'sidecar.yaml': sidecarFile('http://127.0.0.1:1'),
      'accounts.yaml': accountsFile(globexEntry(keys.globex)),
    });
    const source = `import { Server } from 'node:net';
      const { listen } = Server.prototype;
      Server.prototype.listen = function (...given) {
        this.once('listening', () => process.emit('SIGHUP'));
        return listen.apply(this, given);
      };`;
    const sidecar = await startServe(folder.file('sidecar.yaml'), { nodeOptions: preloaded(source) });
    await sidecar.untilEntries('configuration reloaded');
  });

  test('after a swap of `..data` uses the new credentials at once, and no others', async () => {
    const { origin } = await startUpstream();
    const version = (credentials: object): Contents => ({
      'sidecar.yaml': sidecarFile(origin),
      'accounts.yaml': accountsFile({ ...acmeEntry, encryption: { test: { enabled: true, ...credentials } } }),
    });
    const folder = new MountedFolder(version(acmeTest));
    const sidecar = await startServe(folder.file('sidecar.yaml'));
    const charge = (credentials: typeof acmeTest | typeof acmeLive): Promise<Response> =>
      send(sidecar, 'POST /api/s2s/charge', { key: keys.acme, body: envelopeOf(credentials, '1') });
    expect(opened(acmeTest, await charge(acmeTest))).toBe('{"ok":true}');
    folder.swap(version(acmeLive));
    await sidecar.untilEntries('configuration reloaded');
    expect((await charge(acmeTest)).status).toBe(400);
    expect(opened(acmeLive, await charge(acmeLive))).toBe('{"ok":true}');
  });

  test('of an invalid configuration logs and counts all problems, and the current configuration is kept', async () => {
    const { sidecar, folder } = await serveBefore(await startUpstream());
    const before = await samplesOf(sidecar);
    folder.write({ 'accounts.yaml': 'accounts:\n  - { id: a b, name: A }\n  - { id: c, name: C, surplus: 1 }\n' });
    const entries = await sidecar.untilEntries('configuration is invalid: the current one is kept', 2);
    expect(entries.map(({ level }) => level)).toEqual(['error', 'error']);
    expect(entries.map(({ problem }) => problem)).toEqual(problemsOf(folder));
    const { values } = await samplesOf(sidecar);
    expect([values.get(ok), values.get(failed), values.get(at)]).toEqual([0, 1, before.values.get(at)]);
    expect(await statusWith(sidecar, keys.globex)).toBe(200);

    folder.write({ 'accounts.yaml': accountsFile(globexEntry(keys.globex)) });
    await sidecar.untilEntries('configuration reloaded');
    expect(sidecar.entries('configuration is invalid: the current one is kept')).toHaveLength(2);
  });

  test('whose thread fails unexpectedly is counted as failed, and the current configuration is kept', async () => {
    const { origin } = await startUpstream();
    const folder = new Folder({
      'sidecar.yaml': sidecarFile(origin),
      'accounts.yaml': accountsFile(globexEntry(keys.globex)),
    });
    const sidecar = await startServe(folder.file('sidecar.yaml'), { nodeOptions: breakOffOnceThere(folder) });
    folder.write({ break: '' });
    sidecar.signal('SIGHUP');
    const [entry] = await sidecar.untilEntries('configuration is invalid: the current one is kept');
    expect(entry?.['problem']).toBe(
      `${folder.file('sidecar.yaml')}:1:1  .  loading failed (TypeError): run "check" for details`,
    );
    expect(sidecar.stdout).not.toContain('canary');
    expect(await statusWith(sidecar, keys.globex)).toBe(200);
    // The next reload fails and is counted in the same way.
    folder.replace({ break: '' });
    sidecar.signal('SIGHUP');
    await sidecar.untilEntries('configuration is invalid: the current one is kept', 2);
  });

  test('names the members that need a restart, as long as they differ', async () => {
    const upstream = await startUpstream();
    const { sidecar, folder } = await serveBefore(upstream);
    const warnings = (): unknown[] => sidecar.log.filter(({ level }) => level === 'warn').map(({ member }) => member);
    let reloads = 0;
    async function warnedBy(more: Contents): Promise<unknown[]> {
      const before = warnings().length;
      folder.replace({ 'sidecar.yaml': sidecarFile(upstream.origin, more) });
      reloads += 1;
      await sidecar.untilEntries('configuration reloaded', reloads);
      return warnings().slice(before);
    }
    const elsewhere = { host: '127.0.0.2', port: 0 };
    expect(await warnedBy({ listen: elsewhere })).toEqual(['listen']);
    expect(await warnedBy({ listen: elsewhere, admin: elsewhere, limits: { header: '8KiB' } })).toEqual([
      'listen',
      'admin',
      'limits.header',
    ]);
    const tls = newCertificate();
    expect(await warnedBy({ listen: { host: '127.0.0.1', port: 0, tls } })).toEqual(['listen.tls']);
    expect(await warnedBy({})).toEqual([]);
    expect(await statusWith(sidecar, keys.globex)).toBe(200);
  });

  test('changes the log level', async () => {
    const upstream = await startUpstream();
    const { sidecar, folder } = await serveBefore(upstream);
    const requests = (): number => sidecar.entries('request').length;
    await statusWith(sidecar, keys.globex);
    await sidecar.untilEntries('request');

    const routes = [{ path: '/quiet' }];
    folder.replace({ 'sidecar.yaml': sidecarFile(upstream.origin, { routes, log: { level: 'warn' } }) });
    const quiet = 'envelope_sidecar_requests_total{environment="test",method="GET",route="/quiet",status="200"}';
    await eventually(
      'a request on the new route is counted',
      async () => {
        await send(sidecar, 'GET /quiet', { key: keys.globex });
        return (await samplesOf(sidecar)).values.has(quiet);
      },
      { timeout: 10_000 },
    );
    // From here on, no request is logged until the level is `info` again.
    const before = requests();
    for (let i = 0; i < 5; i += 1) await send(sidecar, 'GET /quiet', { key: keys.globex });
    folder.replace({ 'sidecar.yaml': sidecarFile(upstream.origin, { routes, log: { level: 'info' } }) });
    await sidecar.untilEntries('configuration reloaded');
    await send(sidecar, 'GET /quiet', { key: keys.globex, headers: { 'X-Request-Id': 'loud' } });
    await sidecar.until(() => sidecar.entries('request').some((entry) => entry['request_id'] === 'loud'));
    const lines = sidecar.entries('request').slice(before);
    expect(lines.filter((entry) => entry['route'] === '/quiet').map((entry) => entry['request_id'])).toEqual(['loud']);
  });
});

describe('TLS', () => {
  const request = `GET /x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.globex}\r\n\r\n`;

  /** Opens a connection. Returns the server's certificate, and a function that sends a request. */
  async function connection(port: number): Promise<{ shown: string; ask: () => Promise<string> }> {
    const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
    onTestFinished(() => void socket.destroy());
    await new Promise((resolve, reject) => void socket.once('secureConnect', resolve).once('error', reject));
    return {
      shown: socket.getPeerX509Certificate()?.toString() ?? '',
      ask: () =>
        new Promise((resolve, reject) => {
          socket.once('error', reject).once('data', (chunk: Buffer) => resolve(chunk.toString('latin1').slice(0, 15)));
          socket.write(request);
        }),
    };
  }

  test('uses a new certificate after a reload, and keeps open connections', async () => {
    const [first, second] = [newCertificate(), newCertificate()];
    const { origin } = await startUpstream();
    const tls = { cert: 'cert.pem', key: 'key.pem' };
    const version = ({ cert, key }: typeof first): Contents => ({
      'sidecar.yaml': sidecarFile(origin, { listen: { host: '127.0.0.1', port: 0, tls } }),
      'accounts.yaml': accountsFile(globexEntry(keys.globex)),
      'cert.pem': cert,
      'key.pem': key,
    });
    const folder = new MountedFolder(version(first));
    const sidecar = await startServe(folder.file('sidecar.yaml'));
    const before = await connection(sidecar.port);
    expect(before.shown).toBe(first.cert);
    expect(await before.ask()).toBe('HTTP/1.1 200 OK');
    folder.swap(version(second));
    await sidecar.untilEntries('configuration reloaded');
    const after = await connection(sidecar.port);
    expect(after.shown).toBe(second.cert);
    expect(await after.ask()).toBe('HTTP/1.1 200 OK');
    expect(await before.ask()).toBe('HTTP/1.1 200 OK');
  });

  test('keeps the current certificate if the new one cannot be used', async () => {
    const good = newCertificate();
    const { origin } = await startUpstream();
    const listen = { host: '127.0.0.1', port: 0, tls: { cert: 'cert.pem', key: 'key.pem' } };
    const folder = new Folder({
      'sidecar.yaml': sidecarFile(origin, { listen }),
      'accounts.yaml': accountsFile(globexEntry(keys.globex)),
      'cert.pem': good.cert,
      'key.pem': good.key,
    });
    const sidecar = await startServe(folder.file('sidecar.yaml'));
    const weak = newCertificate(['rsa:1024']);
    folder.write({ 'cert.pem': weak.cert, 'key.pem': weak.key });
    await sidecar.untilEntries('configuration is invalid: the current one is kept');
    const { shown, ask } = await connection(sidecar.port);
    expect(shown).toBe(good.cert);
    expect(await ask()).toBe('HTTP/1.1 200 OK');
  });

  test('logs that adding a client CA needs a restart', async () => {
    const [server, ca] = [newCertificate(), newCertificate()];
    const { origin } = await startUpstream();
    const listen = { host: '127.0.0.1', port: 0, tls: server };
    const folder = new Folder({
      'sidecar.yaml': sidecarFile(origin, { listen }),
      'accounts.yaml': accountsFile(globexEntry(keys.globex)),
    });
    const sidecar = await startServe(folder.file('sidecar.yaml'));
    const withCa = { ...listen, tls: { ...server, clientCa: ca.cert } };
    folder.replace({ 'sidecar.yaml': sidecarFile(origin, { listen: withCa }) });
    await sidecar.untilEntries('configuration reloaded');
    expect(sidecar.log.filter(({ level }) => level === 'warn')).toMatchObject([{ member: 'listen.tls.clientCa' }]);
    expect(await (await connection(sidecar.port)).ask()).toBe('HTTP/1.1 200 OK');
  });

  test('does not count a client that does not speak TLS as a request', async () => {
    const { origin } = await startUpstream();
    const { sidecar } = await serveBefore(
      { origin },
      { listen: { host: '127.0.0.1', port: 0, tls: newCertificate() } },
    );
    await (await openConnection(sidecar.port)).send(request).untilEnded();
    expect(await (await connection(sidecar.port)).ask()).toBe('HTTP/1.1 200 OK');
    await sidecar.untilEntries('request');
    expect(sidecar.entries('request')).toHaveLength(1);
  });
});

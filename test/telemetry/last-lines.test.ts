import { once } from 'node:events';
import { createConnection } from 'node:net';
import { describe, expect, test } from 'vitest';
import { send } from '../support/client.ts';
import { startCommand, startServe, type Command, type Serving } from '../support/command.ts';
import { eventually } from '../support/eventually.ts';
import { accountsFile, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { keys } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

async function serve(nodeOptions: readonly string[] = []): Promise<Serving> {
  const { origin } = await startUpstream();
  const folder = new Folder({
    'sidecar.yaml': sidecarFile(origin),
    'accounts.yaml': accountsFile(globexEntry(keys.globex)),
  });
  return startServe(folder.file('sidecar.yaml'), { nodeOptions });
}

/**
 * Node options that load a module. Its code runs only in the sidecar's main thread, although the thread that loads the configuration gets
 * the module, too.
 */
function beside(code: string): string[] {
  const source = `import { isMainThread } from 'node:worker_threads'; if (isMainThread) { ${code} }`;
  return ['--import', `data:text/javascript,${encodeURIComponent(source)}`];
}

/** The number of requests that a client without a key may have in flight on one connection. */
const atOnce = 10;

/** Sends `count` requests on one connection, a few at a time; the last one has the id `lastId`. Resolves when all have responses. */
async function sendMany({ port }: Serving, count: number, lastId: string): Promise<void> {
  const socket = createConnection(port, '127.0.0.1').setEncoding('latin1');
  await once(socket, 'connect');
  const idOf = (i: number): string => (i === count ? lastId : `request-${i}`);
  for (let first = 1; first <= count; first += atOnce) {
    const last = Math.min(first + atOnce - 1, count);
    let requests = '';
    for (let i = first; i <= last; i += 1) {
      requests += `GET /x HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: ${idOf(i)}\r\n\r\n`;
    }
    socket.write(requests);
    let received = '';
    while (!received.includes(`X-Request-Id: ${idOf(last)}\r\n`)) {
      const [chunk] = (await once(socket, 'data')) as [string];
      received += chunk;
    }
  }
  socket.destroy();
}

/** Enough lines to fill every buffer between the sidecar and a reader that has stopped. */
const many = 2_000;

/** Stops reading the log, and sends so many requests that their log lines do not fit into the pipe. */
async function withStalledReader(sidecar: Serving): Promise<void> {
  sidecar.process.stdout?.pause();
  await sendMany(sidecar, many, 'the-last');
}

/** Resolves when the listeners are closed, so that only the last lines remain to be written. */
async function stopped({ adminUrl }: Serving): Promise<void> {
  await eventually(
    'the admin listener is closed',
    () =>
      fetch(`${adminUrl}/livez`).then(
        () => false,
        () => true,
      ),
    { timeout: 20_000 },
  );
}

const ids = (command: Command): unknown[] => command.entries('request').map((entry) => entry['request_id']);

describe('when the process ends, the log has every line', () => {
  test('written until then, in order', async () => {
    const sidecar = await serve();
    await sendMany(sidecar, 500, 'the-last');
    expect(await sidecar.signal('SIGTERM').ended()).toEqual({ code: 0, signal: null });
    const expected = [...Array.from({ length: 499 }, (_, i) => `request-${i + 1}`), 'the-last'];
    expect(ids(sidecar)).toEqual(expected);
    expect(sidecar.log.slice(-3).map(({ msg }) => msg)).toEqual(['stopping', 'draining', 'stopped']);
    expect(sidecar.stdout.endsWith('\n')).toBe(true);
    expect(sidecar.stderr).toBe('');
  });

  test('even if its reader is slow', async () => {
    const sidecar = await serve();
    await withStalledReader(sidecar);
    sidecar.signal('SIGTERM');
    await stopped(sidecar);
    sidecar.process.stdout?.resume();
    expect(await sidecar.ended()).toEqual({ code: 0, signal: null });
    expect(ids(sidecar)).toEqual([...Array.from({ length: many - 1 }, (_, i) => `request-${i + 1}`), 'the-last']);
  });
});

describe('a reader of the log that reads nothing', () => {
  test('does not prevent the process from exiting', async () => {
    const sidecar = await serve();
    await withStalledReader(sidecar);
    const exited = once(sidecar.process, 'exit');
    sidecar.signal('SIGTERM');
    expect(await exited).toEqual([0, null]);
  });

  test('does not prevent the process from exiting after a crash', async () => {
    const sidecar = await serve(beside(`process.on('SIGUSR2', () => { throw new Error('on demand'); });`));
    await withStalledReader(sidecar);
    const exited = once(sidecar.process, 'exit');
    sidecar.signal('SIGUSR2');
    expect(await exited).toEqual([1, null]);
  });

  test('does not delay requests', async () => {
    const sidecar = await serve();
    await withStalledReader(sidecar);
    expect((await send(sidecar, 'GET /x', { key: keys.globex })).status).toBe(200);
  });

  test('and that closes the pipe does not end the process', async () => {
    const sidecar = await serve();
    sidecar.process.stdout?.destroy();
    for (let i = 0; i < 3; i += 1) {
      await sendMany(sidecar, 50, `round-${i}`);
      expect((await fetch(`${sidecar.adminUrl}/readyz`)).status).toBe(200);
    }
    const exited = once(sidecar.process, 'exit');
    sidecar.signal('SIGTERM');
    expect(await exited).toEqual([0, null]);
  });
});

describe('a crash logs its stack and exits with 1', () => {
  test.each([
    ['an uncaught exception', `throw new TypeError('it broke');`],
    ['an unhandled rejection', `Promise.reject(new TypeError('it broke'));`],
  ])('after %s', async (_, code) => {
    const sidecar = await serve(beside(`process.on('SIGUSR2', function crashing() { ${code} });`));
    await sendMany(sidecar, 10, 'the-last');
    expect(await sidecar.signal('SIGUSR2').ended()).toEqual({ code: 1, signal: null });
    // This may not be the last line, because a write in progress may end up after it.
    expect(sidecar.log.find(({ level }) => level === 'fatal')).toEqual({
      level: 'fatal',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as string,
      err: {
        message: 'it broke',
        stack: expect.stringMatching(/^TypeError: it broke\n {4}at .*crashing/) as string,
      },
      msg: 'crash',
    });
    expect(ids(sidecar)).toHaveLength(10);
  });

  test('at every log level, and before the process serves', async () => {
    const folder = new Folder({
      'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { log: { level: 'silent' } }),
      'accounts.yaml': accountsFile(),
    });
    const sidecar = startCommand(['serve', '--config', folder.file('sidecar.yaml')], {
      nodeOptions: beside(`setTimeout(() => { throw new Error('it broke'); }, 1);`),
    });
    expect(await sidecar.ended()).toEqual({ code: 1, signal: null });
    expect(sidecar.log).toMatchObject([{ level: 'fatal', err: { message: 'it broke' } }]);
  });

  test.each([
    ['a text', `'it broke'`, 'it broke'],
    ['null', 'null', 'null'],
  ])('after %s was thrown instead of an error', async (_, thrown, message) => {
    const sidecar = await serve(beside(`process.on('SIGUSR2', () => { throw ${thrown}; });`));
    expect(await sidecar.signal('SIGUSR2').ended()).toEqual({ code: 1, signal: null });
    expect(sidecar.log.at(-1)).toMatchObject({ level: 'fatal', err: { message }, msg: 'crash' });
  });
});

import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { send } from '../support/client.ts';
import { openConnection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { accountsFile, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { mayMount, Mount } from '../support/mount.ts';
import { keys } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const lost = 'lines of the log were lost';

/** Starts `serve` with its log written to `stdout`, a file descriptor, which is then closed in this process. */
async function serveInto(stdout: number, nodeOptions: readonly string[] = []): Promise<ChildProcess> {
  const { origin } = await startUpstream();
  const folder = new Folder({
    'sidecar.yaml': sidecarFile(origin),
    'accounts.yaml': accountsFile(globexEntry(keys.globex)),
  });
  const child = spawn(process.execPath, [...nodeOptions, main, 'serve', '--config', folder.file('sidecar.yaml')], {
    stdio: ['ignore', stdout, 'inherit'],
  });
  closeSync(stdout);
  const exited = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  return child;
}

/** Waits until `log` contains the port of the merchants' listener, and returns it. */
function portIn(log: () => string): Promise<number> {
  return eventually('the sidecar listens', () => Number(/"listener":"merchants".*"port":(\d+)/.exec(log())?.[1]), {
    timeout: 20_000,
  });
}

/** Sends this many requests, several at a time. Their ids have the maximum length, so that the log lines are long. */
async function sendMany(port: number, count: number, prefix: string): Promise<void> {
  const connection = await openConnection(port);
  for (let sent = 0; sent < count;) {
    const round = Math.min(10, count - sent);
    let requests = '';
    for (let i = 0; i < round; i += 1) {
      const id = `${prefix}-${sent + i}-`.padEnd(128, 'x');
      requests += `GET /x HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: ${id}\r\n\r\n`;
    }
    connection.received = '';
    await connection.send(requests).untilText('HTTP/1.1 401', round);
    sent += round;
  }
  connection.socket.destroy();
}

/** A pipe whose reader can be paused. */
class Pipe {
  readonly reader: Socket;
  readonly writer: number;
  text = '';

  constructor() {
    const path = new Folder({}).file('pipe');
    execFileSync('mkfifo', [path]);
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    this.writer = openSync(path, 'w');
    this.reader = new Socket({ fd, readable: true, writable: false });
    this.reader.setEncoding('utf8').on('data', (text: string) => (this.text += text));
    onTestFinished(() => void this.reader.destroy());
  }

  /** The complete lines so far. */
  get lines(): Record<string, unknown>[] {
    const whole = this.text.slice(0, this.text.lastIndexOf('\n') + 1);
    return whole
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  entries(msg: string): Record<string, unknown>[] {
    return this.lines.filter((entry) => entry['msg'] === msg);
  }
}

/** This many lines of more than 300 bytes exceed the 4 MiB that may wait for a reader. */
const tooMany = 16_000;

test('if the log is not read for a while, lines wait in bounded memory, and lost lines are counted', async () => {
  const pipe = new Pipe();
  await serveInto(pipe.writer);
  const port = await portIn(() => pipe.text);
  pipe.reader.pause();
  await sendMany(port, tooMany, 'unread');
  expect((await send({ port }, 'GET /x', { key: keys.globex })).status).toBe(200);

  pipe.reader.resume();
  await eventually('the lost lines are logged', () => pipe.entries(lost).length > 0, {
    timeout: 20_000,
    interval: 200,
  });
  const [loss] = pipe.entries(lost);
  const written = pipe.entries('request').length;
  expect(loss).toMatchObject({ level: 'warn', lines: tooMany + 1 - written });
  // The lines that were kept are the 4 MiB that may wait, and those that fit into the pipe's buffer.
  expect(Buffer.byteLength(pipe.text)).toBeGreaterThan(4 * 1_048_576);
  expect(Buffer.byteLength(pipe.text)).toBeLessThan(4.5 * 1_048_576);

  await sendMany(port, 50, 'read-again');
  await eventually('50 more access lines are read', () => pipe.entries('request').length === written + 50, {
    timeout: 20_000,
    interval: 200,
  });
  expect(pipe.entries(lost)).toHaveLength(1);
});

test('if the reader of the log has closed the pipe, lines are dropped and requests are served as before', async () => {
  const pipe = new Pipe();
  await serveInto(pipe.writer);
  const port = await portIn(() => pipe.text);
  pipe.reader.destroy();
  for (const round of ['first', 'second']) await sendMany(port, 1_000, round);
  expect((await send({ port }, 'GET /x', { key: keys.globex })).status).toBe(200);
});

test.skipIf(!mayMount)('if the disk of the log is full, lines wait for space and requests are served', async () => {
  const disk = new Mount({ ballast: 'x'.repeat(32_768) }, 'size=64k');
  const child = await serveInto(openSync(disk.file('log'), 'a'));
  const log = (): string => readFileSync(disk.file('log'), 'utf8');
  const port = await portIn(log);
  await sendMany(port, 500, 'no-room');
  expect(() => writeFileSync(disk.file('one-more'), 'x')).toThrow('ENOSPC');
  expect((await send({ port }, 'GET /x', { key: keys.globex })).status).toBe(200);
  expect(child.exitCode).toBeNull();

  rmSync(disk.file('ballast'));
  rmSync(disk.file('one-more'));
  execFileSync('mount', ['-o', 'remount,size=4m', disk.path]);
  await eventually('502 access lines are in the file', () => log().split('"msg":"request"').length === 502, {
    timeout: 20_000,
  });
  const lines = log().split('\n').slice(0, -1);
  expect(
    lines.map((line) => (JSON.parse(line) as { msg: string }).msg).filter((msg) => msg === 'request'),
  ).toHaveLength(501);
});

test.skipIf(!mayMount)('if the disk of the log stays full, the process still stops', async () => {
  const disk = new Mount({}, 'size=16k');
  const child = await serveInto(openSync(disk.file('log'), 'a'));
  const port = await portIn(() => readFileSync(disk.file('log'), 'utf8'));
  await sendMany(port, 200, 'no-room');
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  expect(await exited).toEqual([0, null]);
});

const crashing = `data:text/javascript,${encodeURIComponent(
  `import { isMainThread } from 'node:worker_threads';
   if (isMainThread) process.on('SIGUSR2', () => { throw new Error('on demand'); });`,
)}`;

test.skipIf(!mayMount)('if the disk of the log stays full, the process still exits after a crash', async () => {
  const disk = new Mount({}, 'size=16k');
  const child = await serveInto(openSync(disk.file('log'), 'a'), ['--import', crashing]);
  const port = await portIn(() => readFileSync(disk.file('log'), 'utf8'));
  await sendMany(port, 400, 'no-room');
  await eventually('the disk is full', () => readFileSync(disk.file('log'), 'utf8').length >= 12_288, {
    timeout: 20_000,
  });
  const exited = once(child, 'exit');
  child.kill('SIGUSR2');
  expect(await exited).toEqual([1, null]);
});

test('a crash is logged even if the queue of log lines is full', async () => {
  const pipe = new Pipe();
  const child = await serveInto(pipe.writer, ['--import', crashing]);
  const port = await portIn(() => pipe.text);
  pipe.reader.pause();
  await sendMany(port, tooMany, 'unread');
  const exited = once(child, 'exit');
  child.kill('SIGUSR2');
  pipe.reader.resume();
  expect(await exited).toEqual([1, null]);
  await eventually('the crash is logged', () => pipe.text.includes('on demand'), { timeout: 20_000 });
});

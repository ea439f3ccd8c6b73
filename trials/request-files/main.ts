import { Session, type Profiler } from 'node:inspector';
import { once } from 'node:events';
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { acmeTest, codecOf, configOf, keys, startSidecar } from '../../test/support/sidecar.ts';

/**
 * Lists the files of src/ whose code runs between the first byte of an enveloped POST and its access log line, according to V8's call
 * coverage. `npm run request-files`; docs/architecture.md has the figure. After the warm-up, code that runs only at first use no longer
 * runs. Only files that run during every measured request are listed, which excludes timers.
 */
const warmUp = 50;
const measured = 5;

const source = new URL('../../src/', import.meta.url);
const codec = codecOf(acmeTest);
const plaintext = Buffer.from(JSON.stringify({ amount: 2_500, note: 'x'.repeat(300) }));
const envelope = Buffer.from(codec.seal(plaintext));
const head = [
  'POST /api/s2s/charges HTTP/1.1',
  'Host: localhost',
  `Authorization: Bearer ${keys.acme}`,
  'Content-Type: application/json',
  `Content-Length: ${envelope.length}`,
];
const request = Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), envelope]);
const response = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${plaintext.length}\r\n\r\n`;

const core = createServer((socket) => {
  // The request arrives in one read, because the sidecar writes it all at once.
  socket.on('data', () => void socket.write(response + plaintext.toString()));
});
core.listen(0, '127.0.0.1');
await once(core, 'listening');
const ends: (() => Promise<void>)[] = [];
const origin = `http://127.0.0.1:${(core.address() as AddressInfo).port}`;
const sidecar = await startSidecar(configOf(origin), Date.now, (end) => void ends.push(async () => end()));
const client = connect(sidecar.port, '127.0.0.1');
await once(client, 'connect');

for (let i = 0; i < warmUp; i += 1) await exchange(client);
const session = new Session();
session.connect();
await post<void>('Profiler.enable');
await post<unknown>('Profiler.startPreciseCoverage', { callCount: true });
const counts = new Map<string, number>();
for (let i = 0; i < measured; i += 1) {
  await take();
  await exchange(client);
  for (const file of calledFiles(await take())) counts.set(file, (counts.get(file) ?? 0) + 1);
}
const files = [...counts].filter(([, count]) => count === measured).map(([file]) => file);
console.log([...files.toSorted(), `${files.length} files`].join('\n'));

client.destroy();
for (const end of ends) await end();
core.close();
session.disconnect();

/** Sends the request, and waits for its access log line. */
async function exchange(socket: Socket): Promise<void> {
  const before = sidecar.accessLines().length;
  socket.write(request);
  await once(socket, 'data');
  while (sidecar.accessLines().length === before) await new Promise(setImmediate);
  if (sidecar.accessLines().at(-1)?.['status'] !== 200) throw new Error('a request was refused');
}

/** The calls since `take` was last called. */
async function take(): Promise<readonly Profiler.ScriptCoverage[]> {
  return (await post<Profiler.TakePreciseCoverageReturnType>('Profiler.takePreciseCoverage')).result;
}

function calledFiles(scripts: readonly Profiler.ScriptCoverage[]): ReadonlySet<string> {
  const called = scripts.filter(
    ({ url, functions }) =>
      url.startsWith(source.href) && functions.some(({ ranges }) => ranges.some(({ count }) => count > 0)),
  );
  return new Set(called.map(({ url }) => relative(fileURLToPath(source), fileURLToPath(url))));
}

function post<T>(method: string, parameters: object = {}): Promise<T> {
  return new Promise((resolve, reject) => {
    session.post(method, parameters, (error, result) => {
      if (error === null) resolve(result as T);
      else reject(error);
    });
  });
}

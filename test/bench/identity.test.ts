import { spawn } from 'node:child_process';
import { createServer, type ServerResponse } from 'node:http';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { exchangesOf } from '../../bench/exchanges.ts';
import { faultsOf } from '../../bench/identity.ts';
import { freePort } from '../support/free-port.ts';
import { workloads, type Workload } from '../../bench/workloads.ts';
import { eventually } from '../support/eventually.ts';
import { listen } from '../support/listen.ts';

function workloadOf(name: string): Workload {
  const workload = workloads.find((each) => each.name === name);
  if (workload === undefined) throw new Error(`no workload ${name}`);
  return workload;
}

/**
 * Starts the upstream of the benchmark. It is also a server that only forwards, without opening or sealing anything.
 */
async function startUpstream(): Promise<number> {
  const port = await freePort();
  const child = spawn(process.execPath, [
    fileURLToPath(new URL('../../bench/upstream.ts', import.meta.url)),
    String(port),
  ]);
  onTestFinished(() => void child.kill());
  await eventually('the upstream of the benchmark listens', () =>
    fetch(`http://127.0.0.1:${port}/responses/156`).then(
      () => true,
      () => false,
    ),
  );
  return port;
}

async function startServer(response: (res: ServerResponse) => void): Promise<number> {
  const server = createServer((req, res) => {
    req.resume();
    response(res);
  });
  return listen(server);
}

test('a server that only forwards passes if only forwarding is required', async () => {
  const port = await startUpstream();
  expect(await faultsOf(port, workloadOf('pass-get'), false)).toEqual([]);
  expect(await faultsOf(port, workloadOf('pass-10m'), false)).toEqual([]);
});

test('a server that neither opens nor seals is detected', async () => {
  const faults = await faultsOf(await startUpstream(), workloadOf('envelope-350'), true);
  expect(faults).toContain('envelope header: undefined, not sealed');
  expect(faults).toContain('body is right: false, not true');
  expect(faults).toContain('account the upstream was told: , not encrypting-0');
  expect(faults).toContain('an envelope that has no JSON in it is answered with 200');
  expect(faults.filter((fault) => fault.startsWith('SHA-256 of what the upstream got: '))).not.toEqual([]);
  expect(faults.filter((fault) => fault.startsWith('an envelope that '))).toHaveLength(6);
});

test('a server that accepts unknown keys is detected', async () => {
  const faults = await faultsOf(await startUpstream(), workloadOf('refused'), true);
  expect(faults).toContain('status: 200, not 401');
});

test('one wrong byte of a response is detected', async () => {
  const workload = workloadOf('pass-get');
  const [exchange] = exchangesOf(workload, true);
  const { body, forwarded } = exchange?.expected() ?? { body: Buffer.alloc(0), forwarded: undefined };
  const respondWith = (bytes: Buffer) => (res: ServerResponse) => {
    const seen = { 'X-Seen-Sha256': forwarded?.sha256 ?? '', 'X-Seen-Account': forwarded?.account ?? '' };
    res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': bytes.length, ...seen }).end(bytes);
  };
  const wrong = Buffer.from(body);
  wrong.writeUInt8(wrong.readUInt8(wrong.length - 2) ^ 1, wrong.length - 2);

  expect(await faultsOf(await startServer(respondWith(body)), workload, false)).toEqual([]);
  expect(await faultsOf(await startServer(respondWith(wrong)), workload, false)).toEqual([
    'body is right: false, not true',
  ]);
});

test('a server that closes the connection is rejected', async () => {
  const port = await startServer((res) => res.destroy());
  await expect(faultsOf(port, workloadOf('pass-get'), false)).rejects.toThrow('without a whole response');
});

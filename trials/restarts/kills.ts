import { spawn } from 'node:child_process';
import { setTimeout } from 'node:timers/promises';
import { ask, token } from '../../test/operators/api.ts';
import { KeepAliveClient } from '../load/client.ts';
import { MountedFolder } from '../../test/support/folder.ts';
import { seenTwice } from '../load/core.ts';
import { headersOf } from '../load/pair.ts';
import { program, startLoadedSidecar, type LoadedSidecar } from '../load/sidecar.ts';
import type { Defer } from '../load/stage.ts';
import type { PeerTls } from '../load/tls-socket.ts';
import { SteadyLoad } from './load.ts';
import type { Part } from './part.ts';
import { startSetup } from './setup.ts';

/**
 * The maximum number of keys that are issued before the kill, and the longest time between the last key and the kill.
 * Milliseconds.
 */
const mostKeys = 3;
const untilKilled = 50;
/** The approximate time until a command changes the accounts file. Milliseconds. */
const commandStart = 400;

/**
 * Kills sidecars on one folder under load, while one of them and a command issue keys. The next sidecar must start
 * normally and accept every issued key, and it must be possible to issue further keys.
 */
export async function runKills(loops: number, defer: Defer): Promise<Part> {
  const { pair, tls, contentsOf } = await startSetup(defer);
  const [one, two] = pair;
  // No TLS, because the client of the operators' API does not speak it.
  const operators = { host: '127.0.0.1', port: 0, token };
  const folder = new MountedFolder(contentsOf(one, two, { operators }), defer);
  const config = folder.file('sidecar.yaml');
  const problems: string[] = [];
  const start = () => startLoadedSidecar(config, defer, { listeners: 3 });
  let [answered, keys, slowest] = [0, 0, 0];
  let sidecar = await start();
  for (let loop = 1; loop <= loops; loop += 1) {
    const load = new SteadyLoad(pair, sidecar.port, tls, `kill-${loop}`, 'when it is killed');
    const { issued, missing } = await killWhileIssuing(sidecar, config, load);
    problems.push(...load.problems);
    if (missing) problems.push(`kill ${loop}: a key was not issued`);
    answered += load.answered;
    keys += issued.length;

    const begin = performance.now();
    sidecar = await start();
    slowest = Math.max(slowest, performance.now() - begin);
    const faults = await faultsAfter(sidecar, tls, `kill-${loop}`, issued);
    problems.push(...faults.map((fault) => `kill ${loop}: ${fault}`));
  }
  sidecar.signal('SIGTERM');
  const { code } = await sidecar.ended;
  if (code !== 0) problems.push(`kills: the last sidecar ended with ${code}`);
  problems.push(...seenTwice(one.core, two.core));
  return { name: 'SIGKILL under load, while keys are issued', loops, answered, notTaken: 0, keys, slowest, problems };
}

/**
 * Kills a sidecar under load and a command on its folder while both of them issue keys.
 *
 * @returns the issued keys, and whether a key was missing while the sidecar was still running
 */
async function killWhileIssuing(
  sidecar: LoadedSidecar,
  config: string,
  load: SteadyLoad,
): Promise<{ readonly issued: readonly string[]; readonly missing: boolean }> {
  const issue = 'keys issue acme --environment test --kind secret --json --config'.split(' ');
  const command = spawn(process.execPath, [program, ...issue, config]);
  let printed = '';
  command.stdout.on('data', (text: Buffer) => (printed += text.toString()));
  const commandEnded = new Promise<void>((resolve) => void command.once('close', () => resolve()));
  await setTimeout(Math.random() * commandStart);
  const issued: string[] = [];
  const enough = Math.floor(Math.random() * (mostKeys + 1));
  const api = `${sidecar.operatorsUrl}/api/v1`;
  await issueKeys(api, issued, enough);
  const missing = issued.length < enough;
  const issuing = issueKeys(api, issued);
  await setTimeout(Math.random() * untilKilled);
  sidecar.signal('SIGKILL');
  command.kill('SIGKILL');
  await Promise.all([issuing, load.finished(), sidecar.ended, commandEnded]);
  const key = keyIn(printed);
  return { issued: key === undefined ? issued : [...issued, key], missing };
}

/** The problems of the next sidecar, which must be ready, accept every issued key, and issue another one. */
async function faultsAfter(
  sidecar: LoadedSidecar,
  tls: PeerTls,
  prefix: string,
  issued: readonly string[],
): Promise<string[]> {
  const faults: string[] = [];
  const ready = await fetch(`${sidecar.adminUrl}/readyz`);
  if (ready.status !== 200) faults.push('the next sidecar is not ready');
  const client = new KeepAliveClient(sidecar.port, tls);
  for (const [i, key] of issued.entries()) {
    const outcome = await client.ask({ method: 'GET', path: '/x', headers: headersOf(key, `${prefix}-key-${i}`) });
    const status = outcome.kind === 'answered' ? outcome.status : outcome.kind;
    if (status !== 200) faults.push(`an issued key gets ${status}`);
  }
  client.close();
  const next: string[] = [];
  await issueKeys(`${sidecar.operatorsUrl}/api/v1`, next, 1);
  if (next.length === 0) faults.push('no key could be issued afterwards');
  return faults;
}

/** Issues keys one after another, for as long as a sidecar responds. */
async function issueKeys(api: string, issued: string[], most = Infinity): Promise<void> {
  const body = { environment: 'test', kind: 'secret' };
  while (issued.length < most) {
    const response = await ask(api, 'POST /accounts/acme/keys', { body }).catch(() => undefined);
    if (response?.status !== 201) return;
    issued.push(String(response.body['key']));
  }
}

/** The key that a command has printed; undefined if there is none. */
function keyIn(printed: string): string | undefined {
  try {
    return (JSON.parse(printed) as { key: string }).key;
  } catch {
    return undefined;
  }
}

import { Agent, request } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { startServe } from '../support/command.ts';
import { accountsFile, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { keys } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

/** Runs a full garbage collection on a signal, as V8 eventually does by itself. */
const collectOnSignal = 'data:text/javascript,process.on("SIGUSR2",()=>{gc();gc();console.log("collected")})';

/** Requests in flight at once. */
const clients = 64;

test.each<[string, (n: number) => Record<string, string>]>([
  ['a finished request', () => ({})],
  // The sidecar remembers the id for a while, but not the rest of the head.
  [
    'a finished request with an id and a long head',
    (n) => ({ 'X-Request-Id': `request-of-a-client-${n}`, X: 'x'.repeat(6_000) }),
  ],
])(
  '%s leaves nothing in the old generation, even after a full collection under load',
  async (_name, more) => {
    const upstream = await startUpstream();
    const config = new Folder({
      'sidecar.yaml': sidecarFile(upstream.origin),
      'accounts.yaml': accountsFile(globexEntry(keys.globex)),
    });
    const sidecar = await startServe(config.file('sidecar.yaml'), {
      nodeOptions: ['--expose-gc', '--trace-gc-nvp', '--import', collectOnSignal],
    });
    const agent = new Agent({ keepAlive: true, maxSockets: clients });
    let sent = 0;
    const get = (): Promise<void> =>
      new Promise((resolve, reject) => {
        sent += 1;
        const headers = { Authorization: `Bearer ${keys.globex}`, ...more(sent) };
        request({ port: sidecar.port, host: '127.0.0.1', agent, headers })
          .once('response', (res) => res.resume().once('end', resolve))
          .once('error', reject)
          .end();
      });
    const load = async (requests: number): Promise<void> => {
      const each = Array.from({ length: requests / clients });
      await Promise.all(
        Array.from({ length: clients }, async () => {
          for (const _ of each) await get();
        }),
      );
    };
    await Promise.all([load(50 * clients), setTimeout(200).then(() => sidecar.signal('SIGUSR2'))]);
    expect(sidecar.stdout).toContain('collected\n');
    const before = sidecar.stdout.length;
    await load(120 * clients);
    agent.destroy();
    // Use the median of the scavenges, because a mark-compact, whose time V8 chooses, promotes whatever is in flight.
    const promoted = Array.from(sidecar.stdout.slice(before).matchAll(/"gc":"s".*?"promoted":(\d+)/g), ([, bytes]) =>
      Number(bytes),
    ).toSorted((a, b) => a - b);
    expect(promoted.length).toBeGreaterThan(2);
    const median = promoted[Math.floor(promoted.length / 2)] ?? NaN;
    expect((median * promoted.length) / (120 * clients)).toBeLessThan(250);
  },
  120_000,
);

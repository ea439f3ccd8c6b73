import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { startServe } from '../support/command.ts';
import { accountsFile, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { keys } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';
import { samplesOf } from '../telemetry/samples.ts';

const limits = { inFlight: 32, account: '50%' };
/** Half of the requests in flight. */
const share = 16;
/** How long the upstream takes for each request of the noisy account, in milliseconds. */
const slowness = 150;
const quietKey = 'sk_test_quietquietquietquietquiet';

/** Sends a request; returns its status, and the milliseconds to the end of its response. */
function timed(port: number, agent: Agent, path: string, key: string): Promise<{ status: number; took: number }> {
  const before = performance.now();
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}` };
    request({ port, host: '127.0.0.1', path, agent, headers }, (res) => {
      res.resume().on('end', () => resolve({ status: res.statusCode ?? 0, took: performance.now() - before }));
    })
      .on('error', reject)
      .end();
  });
}

function p99(times: readonly number[]): number {
  return times.toSorted((a, b) => a - b)[Math.ceil(times.length * 0.99) - 1] ?? NaN;
}

test(
  'a noisy account takes its share, and the p99 of a quiet one stays what it is alone',
  { timeout: 120_000 },
  async () => {
    let [slow, most] = [0, 0];
    const upstream = await startUpstream(({ url }, res) => {
      if (url !== '/slow') {
        res.end('{}');
        return;
      }
      slow += 1;
      most = Math.max(most, slow);
      res.on('close', () => (slow -= 1));
      setTimeout(() => res.end('{}'), slowness);
    });
    const quiet = { id: 'quiet', name: 'Quiet', keys: [{ id: 'q', key: quietKey, createdAt: '2026-11-01' }] };
    const folder = new Folder({
      'sidecar.yaml': sidecarFile(upstream.origin, { limits }),
      'accounts.yaml': accountsFile(globexEntry(keys.globex), quiet),
    });
    const sidecar = await startServe(folder.file('sidecar.yaml'));
    const agent = new Agent({ keepAlive: true });
    onTestFinished(() => agent.destroy());

    const quietTimes = async (): Promise<readonly number[]> => {
      const times: number[] = [];
      for (let i = 0; i < 200; i += 1) {
        const { status, took } = await timed(sidecar.port, agent, '/quiet', quietKey);
        expect(status).toBe(200);
        times.push(took);
      }
      return times;
    };

    /** Runs twice as many clients as the account has slots. Each client sends its next request at once, or soon after a refusal. */
    const noise = async (until: Promise<unknown>): Promise<readonly number[]> => {
      const over = new AbortController();
      void until.finally(() => over.abort());
      const statuses: number[] = [];
      const client = async (): Promise<void> => {
        while (!over.signal.aborted) {
          const { status } = await timed(sidecar.port, agent, '/slow', keys.globex);
          statuses.push(status);
          if (status !== 200) await delay(100);
        }
      };
      await Promise.all(Array.from({ length: share * 2 }, client));
      return statuses;
    };

    // Measure the quiet account alone and beside the noise in turns, so that a busy machine slows down both. The first requests only
    // compile the code.
    await quietTimes();
    const rounds: { alone: number; beside: number }[] = [];
    const statuses: number[] = [];
    for (let round = 0; round < 4; round += 1) {
      const alone = p99(await quietTimes());
      const measured = delay(2 * slowness).then(quietTimes);
      statuses.push(...(await noise(measured)));
      rounds.push({ alone, beside: p99(await measured) });
    }

    expect(most).toBe(share);
    expect(new Set(statuses)).toEqual(new Set([200, 503]));
    const { values } = await samplesOf(sidecar);
    expect(values.get('envelope_sidecar_overloaded_total{environment="test",reason="account"}')).toBeGreaterThan(0);
    expect(values.get('envelope_sidecar_overloaded_total{environment="test",reason="total"}')).toBeUndefined();
    // Compare the best rounds, because other programs slow down individual rounds. The noisy clients run in this process, beside the quiet
    // one.
    const best = (which: 'alone' | 'beside'): number => Math.min(...rounds.map((round) => round[which]));
    expect(best('beside')).toBeLessThan(10 * best('alone'));
  },
);

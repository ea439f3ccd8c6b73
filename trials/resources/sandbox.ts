import { constants, setPriority } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { count } from '../../bench/table.ts';
import { createAuthority, type Certificate } from '../../test/support/certificates.ts';
import { accountsFile, type Contents, MountedFolder, sidecarFile } from '../../test/support/folder.ts';
import { acmeLive, acmeTest, keys } from '../../test/support/sidecar.ts';
import { openedBy, sealedBy } from '../load/cipher.ts';
import { startCore } from '../load/core.ts';
import { headersOf, type Exchange } from '../load/pair.ts';
import type { LoadedSidecar } from '../load/sidecar.ts';
import type { Defer } from '../load/stage.ts';
import type { Target } from './attack.ts';
import { heldBy, requestsOf, waitedBy } from './held.ts';
import { Merchants, type Figures } from './merchants.ts';
import { operatorsToken } from './operator.ts';
import { sandboxHost } from './sandbox-attacks.ts';
import {
  mebibyte,
  setups,
  startAttackers,
  startUnder,
  targetOf,
  type Attackers,
  type ResourceOptions,
} from './setup.ts';

/**
 * The maximum share of its time that the sidecar may spend waiting for a CPU. If it waits longer, the machine is too busy to compare
 * medians.
 */
const mostWaiting = 0.02;

/** Milliseconds before the first measurement, and after the attack has begun. */
const settling = 1_000;

/** A connection with TLS takes four times the memory, so only a quarter as many fit. */
const tlsShare = 1 / 4;

/** A sidecar that serves both environments, and the attackers who attack it from `test`. */
interface Attacked {
  readonly sidecar: LoadedSidecar;
  readonly attackers: Attackers;
  attack(): void;
}

/**
 * A key of the sandbox takes everything it can get, while merchants send requests in live. Their times are compared with those during the
 * same attack on another sidecar, because here, the attackers use the same CPU cores as the sidecar, whereas real attackers have their own.
 */
export async function runSandbox(
  seconds: number,
  defer: Defer,
  { program, more = 0, longestTime = 1_000, mostSlowed = 2 }: ResourceOptions,
): Promise<{ readonly line: string[]; readonly problems: string[] }> {
  const setup = setups().deployed;
  const limits = { ...setup.limits, connections: setup.limits.connections * tlsShare };
  const core = await startCore('live', defer);
  const authority = createAuthority();
  const tls = authority.issue('IP:127.0.0.1');
  const start = async (): Promise<Attacked> => {
    const attackers = await startAttackers(defer);
    const folder = new MountedFolder(contentsOf(limits, core.origin, attackers.core, tls), defer);
    const sidecar = await startUnder(setup, folder.file('sidecar.yaml'), defer, program);
    sidecar.stopReading();
    return { sidecar, attackers, attack: () => attackers.attack('from the sandbox', targetOf(sidecar, limits)) };
  };
  const [one, other] = [await start(), await start()];
  const { sidecar } = one;
  // The other sidecar gets the low priority of the attackers, which stand for other machines.
  setPriority(other.sidecar.pid, constants.priority.PRIORITY_LOW);

  const merchants = new Merchants(sidecar.port, liveCharge, { ca: authority.cert });
  let waited = 0;
  const measure = async (): Promise<Figures> => {
    await setTimeout(settling);
    merchants.startMeasuring();
    const [begin, waitedBefore] = [performance.now(), waitedBy(sidecar.pid)];
    await setTimeout(seconds * 1_000);
    waited = Math.max(waited, (waitedBy(sidecar.pid) - waitedBefore) / (performance.now() - begin));
    return merchants.figures;
  };
  const idle = await measure();
  other.attack();
  const alone = await measure();
  other.attackers.stop();
  other.sidecar.signal('SIGKILL');
  one.attack();
  let held = 0;
  const watch = setInterval(() => (held = Math.max(held, heldBy(sidecar.pid))), 20);
  const attacked = await measure();
  clearInterval(watch);
  const taken = await requestsOf('test', sidecar.adminUrl);
  one.attackers.stop();
  const problems = await merchants.end(longestTime);
  if (!sidecar.isRunning()) problems.push(`the process has ended: ${sidecar.errors().slice(-2_000)}`);
  // If the sidecar had to wait for a CPU, the times would be those of the machine's queue.
  const isJudged = waited < mostWaiting;
  if (isJudged && attacked.median > mostSlowed * alone.median) {
    problems.push(`median ${ms(attacked.median)}, alone ${ms(alone.median)}`);
  }
  if (held > setup.mebibytes * mebibyte + more) problems.push(`${Math.ceil(held / mebibyte)} MiB were held`);
  sidecar.signal('SIGTERM');
  await sidecar.ended;
  const times = [idle.median, alone.median, attacked.median, attacked.longest].map(ms);
  const line = [count(attacked.requests), count(taken), ...times, `${Math.ceil((held - more) / mebibyte)} MiB`];
  line.push(isJudged ? 'yes' : `no: waited for a CPU ${Math.round(waited * 100)} % of the time`);
  return { line, problems: problems.map((problem) => `live beside the sandbox: ${problem}`) };
}

function ms(time: number): string {
  return `${time.toFixed(1)} ms`;
}

function contentsOf(limits: Target['limits'], live: string, test: string, tls: Certificate): Contents {
  const key = (id: string, text: string): Contents => ({ id, key: text, createdAt: '2026-11-01' });
  const hooli = {
    id: 'hooli',
    name: 'Hooli',
    keys: [key('hooli', keys.acmeLive)],
    encryption: { live: { enabled: true, ...acmeLive } },
  };
  const acme = {
    id: 'acme',
    name: 'Acme Stores',
    keys: [key('acme', keys.acme)],
    encryption: { test: { enabled: true, ...acmeTest } },
  };
  return {
    'sidecar.yaml': sidecarFile(live, {
      listen: { host: '127.0.0.1', port: 0, tls },
      operators: { host: '127.0.0.1', port: 0, token: operatorsToken },
      environments: {
        test: { hosts: [sandboxHost], upstream: test },
        live: { hosts: ['127.0.0.1'], upstream: live },
      },
      limits,
    }),
    'accounts.yaml': accountsFile(acme, hooli),
  };
}

/** An enveloped charge in live. */
function liveCharge(turn: number): Exchange {
  const id = `live-${turn}`;
  const body = sealedBy(acmeLive, JSON.stringify({ id }));
  return {
    id,
    asked: { method: 'POST', path: '/api/s2s/charges', headers: headersOf(keys.acmeLive, id), body },
    complaint: ({ status, body: sealed }) => {
      if (status !== 200) return `status ${status}`;
      return openedBy(acmeLive, sealed)?.includes(id) === true ? undefined : 'not its response';
    },
  };
}

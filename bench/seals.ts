import { join } from 'node:path';
import { cpuSeconds } from './cpu-time.ts';
import { knownMerchants, requestsOf } from './exchanges.ts';
import { documentOf } from './documents.ts';
import { runFixedRate, writeRequests, type Latency } from './load.ts';
import type { Pace } from './rounds.ts';
import type { Stage } from './stage.ts';
import { freePort } from '../test/support/free-port.ts';
import { withSidecar } from './with-sidecar.ts';

/** The cost for merchants of sealing through the operators' API. */
export interface SealCost {
  /** The number per second. */
  readonly requests: number;
  readonly seals: number;
  /** The merchants' figures without seals, but with as many other requests to the upstream, and with seals. */
  readonly rounds: readonly { readonly without: Beside; readonly with: Beside }[];
}

interface Beside extends Latency {
  /** The share of its core that the sidecar used. */
  readonly busy: number;
}

/** The number of webhooks per second. */
const seals = 1_000;

/** This must be below ten, because the listener keeps only ten connections per token. */
const coreConnections = 8;

const token = 'token-of-the-core-in-the-benchmark';

/**
 * Measures merchants' latency alternately with and without seals, on the same sidecar. Without seals, the payment core's client sends as
 * many requests of the same size to the upstream instead, because it shares a CPU core with the merchants' client.
 */
export async function sealCost(
  stage: Stage,
  { rounds, seconds, warmUp, rate = 1_000 }: Pick<Pace, 'rounds' | 'seconds' | 'warmUp' | 'rate'>,
): Promise<SealCost> {
  const operators = { port: await freePort(), tokens: [{ name: 'core', role: 'core', token }] };
  return withSidecar(stage, { settings: { operators } }, async ({ port, process }, _startUp, directory) => {
    const encrypting = knownMerchants.slice(0, 100);
    const files = {
      merchants: join(directory, 'merchants'),
      seals: join(directory, 'seals'),
      others: join(directory, 'others'),
    };
    writeRequests(files.merchants, requestsOf(encrypting, '/api/s2s/responses/156', 350));
    const sealsOf = (pathOf: (id: string) => string): Buffer[] => encrypting.map(({ id }) => sealRequest(pathOf(id)));
    writeRequests(
      files.seals,
      sealsOf((id) => `/api/v1/accounts/${id}/encryption/test/seal`),
    );
    // The response is as long as the envelope of a document of 350 bytes.
    writeRequests(
      files.others,
      sealsOf(() => '/responses/715'),
    );

    const latencyBeside = async (corePort: number, file: string, time: number): Promise<Beside> => {
      const before = cpuSeconds(process.pid);
      const [merchants] = await Promise.all([
        runFixedRate(port, files.merchants, rate, time),
        runFixedRate(corePort, file, seals, time, coreConnections),
      ]);
      return { ...merchants, busy: (cpuSeconds(process.pid) - before) / time };
    };
    const beside = {
      without: (time: number) => latencyBeside(stage.upstream, files.others, time),
      with: (time: number) => latencyBeside(operators.port, files.seals, time),
    };
    if (warmUp > 0) await beside.with(warmUp);
    const measured: { without: Beside; with: Beside }[] = [];
    for (let round = 0; round < rounds; round += 1) {
      // The order alternates from round to round, so that neither measurement always comes second.
      const first = round % 2 === 0 ? await beside.without(seconds) : undefined;
      const withSeals = await beside.with(seconds);
      measured.push({ without: first ?? (await beside.without(seconds)), with: withSeals });
    }
    return { requests: rate, seals, rounds: measured };
  });
}

function sealRequest(path: string): Buffer {
  const body = documentOf(350);
  const head = [
    `POST ${path} HTTP/1.1`,
    'Host: localhost',
    `Authorization: Bearer ${token}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
    '',
    '',
  ].join('\r\n');
  return Buffer.concat([Buffer.from(head), body]);
}

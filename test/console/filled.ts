import { setTimeout as sleep } from 'node:timers/promises';
import { ask } from '../operators/api.ts';
import { startCommand } from '../support/command.ts';
import { jumpingClock } from '../support/jumping-clock.ts';
import type { Respond } from '../support/upstream.ts';
import { Merchant, type HandedOver } from './merchant.ts';
import { operators, type ConsoleSidecar } from './sidecar.ts';

const towns = ['Aberdeen', 'Bergen', 'Cadiz', 'Delft', 'Essen', 'Faro', 'Ghent', 'Hull', 'Izmir', 'Jena'];
const trades = ['Books', 'Coffee', 'Cycles', 'Pharmacy', 'Tickets'];
const names = towns.flatMap((town) => trades.map((trade) => `${town} ${trade}`)).slice(0, 47);
const idOf = (name: string): string => name.toLowerCase().replace(' ', '-');
const imported = 9;
const liveHost = 'api.pay.example';

const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i);
const quarter = 1 / 96;
/** The times at which something happens, in days from now: each day of a month, and each quarter of an hour of a day. */
const times = [-200, ...range(-30, -1), ...range(-95, 0).map((i) => i * quarter)];

/**
 * Makes the sidecar do the work of each minute every 100 ms. Uses must be written before the clock moves on, because the sidecar keeps only
 * a few hours of uses that are not written.
 */
const shortMinutes = `
  const real = setInterval;
  globalThis.setInterval = (work, ms, ...given) => real(work, ms === 60_000 ? 100 : ms, ...given);`;

/** Options of a sidecar that can be filled: its clock can be moved, and its core fails on demand. */
export const fillable = {
  nodeOptions: [
    ...jumpingClock(...times.map((time, i) => time - (times[i - 1] ?? 0))),
    '--import',
    `data:text/javascript,${encodeURIComponent(shortMinutes)}`,
  ],
  respond: ((seen, res) => {
    const isFailure = seen.body.includes('503');
    res.writeHead(isFailure ? 503 : 200, { 'Content-Type': 'application/json' }).end(`{"ok":${!isFailure}}`);
  }) satisfies Respond,
  environments: (upstream: string) => ({
    test: { hosts: ['127.0.0.1'], upstream },
    live: { hosts: [liveHost], upstream },
  }),
};

interface Busy {
  readonly id: string;
  readonly key: string;
  readonly credentials: HandedOver | undefined;
}

/** Gives the sidecar accounts and a day of traffic. All of it comes from real calls at earlier times, up to now. */
export async function fill({ serving, folder, url }: ConsoleSidecar): Promise<void> {
  const api = async <Body>(path: string, sent: object = {}): Promise<Body> => {
    const asked = { body: sent, token: operators.admin.token };
    const { status, body } = await ask(new URL('/api/v1', url).href, `POST /accounts${path}`, asked);
    if (status >= 300) throw new Error(`${path}: ${JSON.stringify(body)}`);
    return body as Body;
  };
  const busy: Busy[] = [];
  const add = async (name: string): Promise<void> => {
    const id = idOf(name);
    await api('', { id, name });
    for (const [environment, called] of [
      ['test', 'Integration'],
      ['live', 'Web shop'],
    ] as const) {
      const issued = await api<{ key: string }>(`/${id}/keys`, { environment, kind: 'secret', name: called });
      const isEncrypting = name.length % 2 === 0;
      const credentials = isEncrypting ? await api<HandedOver>(`/${id}/encryption/${environment}/enable`) : undefined;
      if (environment === 'live' && busy.length < 6) busy.push({ id, key: issued.key, credentials });
    }
  };
  const merchant = new Merchant(serving.port, liveHost);
  const send = async (count: number, time: number): Promise<void> => {
    const sent = busy.flatMap(({ key, credentials }, i) =>
      Array.from(
        { length: Math.ceil(count / (i + 1)) },
        () => () => (credentials === undefined ? merchant.charge(key) : merchant.sealed(key, credentials)),
      ),
    );
    const encrypting = busy.find(({ credentials }) => credentials !== undefined)?.key ?? '';
    const plain = busy.find(({ credentials }) => credentials === undefined)?.key ?? '';
    const isIncident = time > -30 * quarter && time < -24 * quarter;
    const odd = [
      ...(count % 2 === 0 ? [`sk_live_${'unknown'.repeat(4)}`, encrypting] : []),
      ...(count % 3 === 0 ? [`sk_test_${'mismatch'.repeat(4)}`, encrypting] : []),
      ...(isIncident ? Array.from({ length: 3 }, () => `sk_live_${'unknown'.repeat(4)}`) : []),
    ].map((key) => () => merchant.charge(key));
    const failed = isIncident ? range(1, 4).map(() => () => merchant.charge(plain, '503')) : [];
    const requests = [...sent, ...odd, ...failed];
    for (let i = 0; i < requests.length; i += 50)
      await Promise.all(requests.slice(i, i + 50).map((request) => request()));
  };
  for (const time of times) {
    serving.signal('SIGUSR2');
    await sleep(30);
    if (time === -200) for (const name of names.slice(0, 3)) await add(name);
    else if (time === -30) for (const name of names.slice(3, -imported)) await add(name);
    else if (time <= -1) await send(500 - 200 * Math.cos(time) + ((time * time) % 90), time);
    else await send(Math.round(7 + 4 * Math.sin(time * 2 * Math.PI) + ((time * 4_800) % 3)), time);
    const [first, , third] = busy;
    if (time === -4 * quarter) {
      for (const name of ['Till 1', 'Till 2', 'Till 3']) {
        await api(`/${first?.id}/keys`, { environment: 'live', kind: 'secret', name, expires_in: '180d' });
      }
      const till = await api<{ id: string }>(`/${first?.id}/keys`, {
        environment: 'live',
        kind: 'public',
        name: 'Kiosk',
      });
      await api(`/${first?.id}/keys/${till.id}/revoke`);
      await api(`/${third?.id}/deactivate`);
      await api(`/${third?.id}/activate`);
    }
    if (time === -2 * quarter) await rotate(api, url, first?.id);
    if (time === -1 * quarter) await api(`/${first?.id}/encryption/test/disable`, { grace: '24h' });
  }
  const lines = names.slice(-imported).map((name) => JSON.stringify({ id: idOf(name), name }));
  folder.write({ 'many.ndjson': `${lines.join('\n')}\n` });
  const line = ['accounts', 'import', folder.file('many.ndjson'), '--config', folder.file('sidecar.yaml')];
  await startCommand(line).ended();
}

/** Rotates the live key that an account uses, with an overlap. */
async function rotate(api: (path: string, body?: object) => Promise<unknown>, url: string, id = ''): Promise<void> {
  const { body } = await ask(new URL('/api/v1', url).href, `GET /accounts/${id}`, { token: operators.admin.token });
  const keys = body['keys'] as { id: string; name: string }[];
  const used = keys.find(({ name }) => name === 'Web shop');
  await api(`/${id}/keys/${used?.id}/rotate`, { overlap: '24h' });
}

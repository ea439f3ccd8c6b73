import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import type { Environment } from '../../src/config/config.ts';
import { describeUnless } from '../support/describe-unless.ts';
import { headsNaming } from '../support/hosts.ts';
import { nginxMissing, startNginx } from '../support/nginx.ts';
import { exchangeRaw, parseOnly } from '../support/connection.ts';
import { configOf, keys, startSidecar } from '../support/sidecar.ts';

/** A different seed makes different heads. */
const seed = 20_261_121;
const numRuns = 2_000;

const hosts = { test: 'sandbox.pay.example', live: 'api.pay.example' } as const;
const keyOf = { test: keys.acme, live: keys.acmeLive } as const;
const environments = ['test', 'live'] as const;

describeUnless(nginxMissing, `nginx as the upstream of both environments (seed ${seed})`, () => {
  test('chooses the host of the environment that the sidecar chose, or the request is refused', async () => {
    const server = (name: string, more: string): string => `
      server {
        listen @listen@ ${more};
        add_header X-Server "${name}" always;
        add_header X-Told "$http_x_environment" always;
        return 200 ok;
      }`;
    const nginx = await startNginx(
      server('none', 'default_server') +
        environments.map((name) => server(name, `; server_name ${hosts[name]}`)).join(''),
      '$http_x_request_id',
    );
    const [base] = configOf('http://localhost').environments;
    if (base === undefined) throw new Error('no environment to begin with');
    const { port } = await startSidecar(
      configOf('', {
        environments: environments.map((name): Environment => ({
          name,
          hosts: [hosts[name]],
          upstream: { ...base.upstream, socketPath: nginx.socketPath },
        })),
      }),
    );

    const forwarded: string[] = [];
    const counts = new Map<string, number>();
    let sent = 0;
    await fc.assert(
      fc.asyncProperty(headsNaming([...Object.values(hosts), 'evil.example', '']), async (head) => {
        const outcomes: string[] = [];
        for (const environment of environments) {
          const id = `request-${(sent += 1)}`;
          const key = `Authorization: Bearer ${keyOf[environment]}`;
          const bytes = [head, key, `X-Request-Id: ${id}`, 'Connection: close', '', ''].join('\r\n');
          const { headers, body } = parseOnly(await exchangeRaw(port, bytes));
          if (headers['x-server'] === undefined) {
            outcomes.push(String((JSON.parse(body) as { code?: unknown }).code));
            continue;
          }
          forwarded.push(id);
          outcomes.push('forwarded');
          expect(headers).toMatchObject({ 'x-server': environment, 'x-told': environment });
        }
        // Either one key is forwarded and the other refused, or both are refused for the same reason.
        const [one, other] = outcomes.toSorted();
        if (one === 'environment_mismatch') expect(other).toBe('forwarded');
        else
          expect([one, one]).toEqual([
            other,
            expect.stringMatching(/^(?:ambiguous_request|malformed_request|unknown_host)$/),
          ]);
        counts.set(String(other), (counts.get(String(other)) ?? 0) + 1);
      }),
      { seed, numRuns },
    );

    await vi.waitFor(() => expect(nginx.accessLines()).toHaveLength(forwarded.length));
    expect(nginx.accessLines().toSorted()).toEqual(forwarded.toSorted());
    expect([...counts.keys()].toSorted()).toEqual([
      'ambiguous_request',
      'forwarded',
      'malformed_request',
      'unknown_host',
    ]);
    expect([...counts].filter(([, times]) => times < numRuns / 20)).toEqual([]);
  });
});

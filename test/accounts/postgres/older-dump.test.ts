import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { commandsOn } from '../../support/command-line.ts';
import { startServe } from '../../support/command.ts';
import { Folder, sidecarFile } from '../../support/folder.ts';
import { describeWithPostgres, postgresPrograms, usePostgres } from '../../support/postgres.ts';
import { masterKey } from '../../support/stores.ts';

const execute = promisify(execFile);

describeWithPostgres('an older dump that is restored while sidecars run', () => {
  const postgres = usePostgres();

  test('is noticed by each sidecar, and merchants are served all the time', { timeout: 120_000 }, async () => {
    const core = createServer((_request, response) => response.end('{}')).listen(0, '127.0.0.1');
    onTestFinished(() => void core.close());
    await once(core, 'listening');
    const { port } = core.address() as { port: number };
    const url = await postgres.createDatabase();
    const folder = new Folder({
      'sidecar.yaml': sidecarFile(`http://127.0.0.1:${port}`, { accounts: { postgres: { url, masterKey } } }),
    });
    const { run, json } = commandsOn(folder.file('sidecar.yaml'));
    const issue = async (account: string): Promise<{ readonly id: string; readonly key: string }> => {
      expect(await run(`accounts add ${account} --name Name`)).toMatchObject({ code: 0 });
      return json(`keys issue ${account} --environment test --kind secret`);
    };
    const [steady, leaked] = [await issue('steady'), await issue('acme')];
    const sidecars = [await startServe(folder.file('sidecar.yaml')), await startServe(folder.file('sidecar.yaml'))];
    const status = async (merchants: number, key: string): Promise<number> => {
      const headers = { Authorization: `Bearer ${key}` };
      return (await fetch(`http://127.0.0.1:${merchants}/api/v1/other`, { headers })).status;
    };
    const statuses = (key: string) => Promise.all(sidecars.map((sidecar) => status(sidecar.port, key)));
    const samples = (metric: string) =>
      Promise.all(
        sidecars.map(async ({ adminUrl }) => {
          const text = await (await fetch(`${adminUrl}/metrics`)).text();
          return Number(new RegExp(`^envelope_sidecar_${metric}(?:{.*})? (\\d+)$`, 'm').exec(text)?.[1]);
        }),
      );
    // The sidecars check the trail every ten seconds.
    const soon = { timeout: 40_000, interval: 200 };
    const wrong: number[] = [];
    const over = new AbortController();
    onTestFinished(() => over.abort());
    const serving = (async () => {
      while (!over.signal.aborted) {
        wrong.push(...(await statuses(steady.key)).filter((each) => each !== 200));
        await setTimeout(50);
      }
    })();

    const dump = folder.file('accounts.dump');
    const postgresProgram = (name: string, ...args: readonly string[]) =>
      execute(join(postgresPrograms ?? '', name), args);
    await postgresProgram('pg_dump', '--schema=envelope_sidecar', '--format=custom', `--file=${dump}`, url);
    expect(await run(`keys revoke acme ${leaked.id}`)).toMatchObject({ code: 0 });
    await expect.poll(() => statuses(leaked.key), soon).toEqual([401, 401]);
    await expect.poll(() => samples('audit_events'), soon).toEqual([5, 5]);
    expect(await samples('audit_consistent')).toEqual([1, 1]);
    await postgresProgram(
      'pg_restore',
      '--clean',
      '--if-exists',
      '--exit-on-error',
      '--single-transaction',
      `--dbname=${url}`,
      dump,
    );
    await expect.poll(() => samples('audit_consistent'), soon).toEqual([0, 0]);
    // As the runbook says, keys that were revoked after the dump work again.
    await expect.poll(() => statuses(leaked.key), soon).toEqual([200, 200]);
    over.abort();
    await serving;
    expect(wrong).toEqual([]);
    for (const sidecar of sidecars) {
      const lost = () =>
        sidecar.log.filter(({ msg }) => String(msg).startsWith('the audit trail no longer has an event'));
      // The log line may arrive after the metric has changed.
      await expect.poll(lost).toMatchObject([{ level: 'error', position: 5, last: 4 }]);
    }
  });
});

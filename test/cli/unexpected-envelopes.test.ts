import { describe, expect, test } from 'vitest';
import type { IssuedKeyView } from '../../src/accounts/views.ts';
import { runCommand } from '../support/cli.ts';
import { envelopeOf, send } from '../support/client.ts';
import { startServe } from '../support/command.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { acmeTest } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

const masterKey = Buffer.alloc(32, 7).toString('base64');

function describeShow(name: string, accounts: () => Promise<object>): void {
  describe(`encryption show ${name}`, () => {
    test('names an account without encryption that still sends envelopes, and when it last did', async () => {
      const { origin } = await startUpstream();
      const folder = new Folder({
        'accounts.yaml': 'accounts: []\n',
        'sidecar.yaml': sidecarFile(origin, { accounts: await accounts() }),
      });
      const run = (line: string) => runCommand([...line.split(' '), '--config', folder.file('sidecar.yaml')]);
      const show = 'encryption show acme --environment test';
      await run('accounts add acme --name Acme');
      const issued = await run('keys issue acme --environment test --kind secret --json');
      const { key } = JSON.parse(issued.stdout) as IssuedKeyView;
      await run('encryption enable acme --environment test');
      await run('encryption disable acme --environment test');
      expect(JSON.parse((await run(`${show} --json`)).stdout)).toMatchObject({ unexpected_envelope_at: null });
      expect((await run(show)).stdout).not.toContain('envelopes');

      const begin = Math.floor(Date.now() / 1_000) * 1_000;
      const sidecar = await startServe(folder.file('sidecar.yaml'));
      await send(sidecar, 'POST /api/s2s/charge', { key: key ?? '', body: envelopeOf(acmeTest, '{}') });
      // Unwritten notes are written at the end.
      await sidecar.signal('SIGTERM').ended();
      const shown = JSON.parse((await run(`${show} --json`)).stdout) as { unexpected_envelope_at: string };
      const at = Date.parse(shown.unexpected_envelope_at);
      expect(at).toBeGreaterThanOrEqual(begin);
      expect(at).toBeLessThanOrEqual(Date.now());
      expect((await run(show)).stdout).toMatch(/^envelopes +still arrive, most recently at 20.{14}.*$/m);
      expect((await run('encryption show acme --environment live')).stdout).not.toContain('envelopes');

      await run('encryption enable acme --environment test');
      expect(JSON.parse((await run(`${show} --json`)).stdout)).toMatchObject({ unexpected_envelope_at: null });
    });
  });
}

describeShow('on a file', async () => ({ file: 'accounts.yaml', masterKey }));

describeWithPostgres('accounts in PostgreSQL', () => {
  const postgres = usePostgres();
  describeShow('on a database', async () => ({ postgres: { url: await postgres.createDatabase(), masterKey } }));
});

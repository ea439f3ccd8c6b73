import { expect, test } from 'vitest';
import type { IssuedKeyView } from '../../src/accounts/views.ts';
import { envelopeOf, send } from '../support/client.ts';
import { startServe } from '../support/command.ts';
import { commandsOn } from '../support/command-line.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { acmeTest } from '../support/sidecar.ts';
import { describeOnEachStore } from '../support/stores.ts';
import { startUpstream } from '../support/upstream.ts';

describeOnEachStore('encryption show', (newStore) => {
  test('names an account without encryption that still sends envelopes, and when it last did', async () => {
    const { origin } = await startUpstream();
    const folder = new Folder({
      'accounts.yaml': 'accounts: []\n',
      'sidecar.yaml': sidecarFile(origin, { accounts: await newStore() }),
    });
    const { run, json } = commandsOn(folder.file('sidecar.yaml'));
    const show = 'encryption show acme --environment test';
    await run('accounts add acme --name Acme');
    const { key } = await json<IssuedKeyView>('keys issue acme --environment test --kind secret');
    await run('encryption enable acme --environment test');
    await run('encryption disable acme --environment test');
    expect(await json(show)).toMatchObject({ unexpected_envelope_at: null });
    expect((await run(show)).stdout).not.toContain('envelopes');

    const begin = Math.floor(Date.now() / 1_000) * 1_000;
    const sidecar = await startServe(folder.file('sidecar.yaml'));
    await send(sidecar, 'POST /api/s2s/charge', { key: key ?? '', body: envelopeOf(acmeTest, '{}') });
    // The sidecar writes its notes when it stops, at the latest.
    await sidecar.signal('SIGTERM').ended();
    const shown = await json<{ unexpected_envelope_at: string }>(show);
    const at = Date.parse(shown.unexpected_envelope_at);
    expect(at).toBeGreaterThanOrEqual(begin);
    expect(at).toBeLessThanOrEqual(Date.now());
    expect((await run(show)).stdout).toMatch(/^envelopes +still arrive, most recently at 20.{14}.*$/m);
    expect((await run('encryption show acme --environment live')).stdout).not.toContain('envelopes');

    await run('encryption enable acme --environment test');
    expect(await json(show)).toMatchObject({ unexpected_envelope_at: null });
  });
});

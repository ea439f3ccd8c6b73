import { readFileSync } from 'node:fs';
import { connect as connectTls } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createAuthority, type Certificate } from './support/certificates.ts';
import { admin, configOf, operatorsOf, startSidecar } from './support/sidecar.ts';
import { startUpstream } from './support/upstream.ts';

describe('a new configuration', () => {
  const authority = createAuthority();
  const other = createAuthority();
  const plain = { host: '127.0.0.1', port: 0, tls: undefined };
  const secured = { ...plain, tls: { ...authority.issue('IP:127.0.0.1'), clientCa: undefined } };
  const demanding = { ...plain, tls: { ...secured.tls, clientCa: authority.cert } };
  const operators = operatorsOf([admin('dashboard', 'a'.repeat(32))]);
  const elsewhere = { host: '127.0.0.2', port: 0 };
  type Members = Parameters<typeof configOf>[1];

  test.each<[string, Members, Members]>([
    ['listen', {}, { listen: { ...plain, ...elsewhere } }],
    ['listen.tls', {}, { listen: secured }],
    ['listen.tls.clientCa', { listen: secured }, { listen: demanding }],
    ['listen.tls.clientCa', { listen: demanding }, { listen: secured }],
    ['admin', {}, { admin: elsewhere }],
    ['operators', {}, { operators }],
    ['operators', { operators }, {}],
    ['operators', { operators }, { operators: { ...operators, ...elsewhere } }],
    ['operators.tls', { operators }, { operators: { ...operators, tls: secured.tls } }],
    [
      'operators.tls.clientCa',
      { operators: { ...operators, tls: secured.tls } },
      { operators: { ...operators, tls: demanding.tls } },
    ],
    ['limits.header', {}, { limits: { header: 8_192 } }],
  ])('that differs in %s says that this needs a restart, and applies the rest', async (member, before, after) => {
    const { origin } = await startUpstream();
    const sidecar = await startSidecar(configOf(origin, before));
    const warnings = (): unknown[] => sidecar.log.filter(({ level }) => level === 'warn').map((line) => line['member']);
    sidecar.app.apply(configOf(origin, before));
    expect(warnings()).toEqual([]);
    sidecar.app.apply(configOf(origin, { ...after, log: { level: 'warn' } }));
    expect(warnings()).toEqual([member]);
    // Until the restart it is said again.
    sidecar.app.apply(configOf(origin, after));
    expect(warnings()).toEqual([member, member]);
    // The page that tells operators what needs a restart names it.
    const [, page = ''] = /^## Reload$([^]*?)^## /m.exec(readFileSync('docs/operators.md', 'utf8')) ?? [];
    expect(page).toContain(`\`${member}\``);
  });

  test('with another CA for clients’ certificates lets in who shows one of it, and nobody else any more', async () => {
    const { origin } = await startUpstream();
    const sidecar = await startSidecar(configOf(origin, { listen: demanding }));
    const clients = [authority.issue('DNS:merchant'), other.issue('DNS:merchant')];
    const letsIn = async ({ cert, key }: Certificate): Promise<boolean> => {
      const socket = connectTls({ host: '127.0.0.1', port: sidecar.port, ca: authority.cert, cert, key });
      onTestFinished(() => void socket.destroy());
      return new Promise((resolve) => {
        socket
          .once('data', () => resolve(true))
          .on('error', () => {})
          .once('close', () => resolve(false));
        socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
      });
    };
    expect(await Promise.all(clients.map(letsIn))).toEqual([true, false]);
    sidecar.app.apply(configOf(origin, { listen: { ...demanding, tls: { ...demanding.tls, clientCa: other.cert } } }));
    expect(await Promise.all(clients.map(letsIn))).toEqual([false, true]);
    expect(sidecar.log.filter(({ level, msg }) => level === 'warn' && msg !== 'request')).toEqual([]);
  });
});

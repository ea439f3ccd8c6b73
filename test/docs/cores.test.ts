import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { envelopeOf, send } from '../support/client.ts';
import { accountsFile, Folder } from '../support/folder.ts';
import { firstSeen, startGateway } from '../support/gateway.ts';
import { acmeTest, keys } from '../support/sidecar.ts';

const page = readFileSync('docs/cores.md', 'utf8');

/** The names before the colon in each item below a heading. */
function namesBelow(heading: string): string[] {
  const section = page.split(`## ${heading}\n`)[1]?.split('\n## ', 1)[0] ?? '';
  return section
    .split('\n')
    .filter((line) => line.startsWith('- '))
    .flatMap((line) => [...(line.split(': ')[0] ?? '').matchAll(/`([A-Za-z0-9-]+)`/g)].map(([, name = '']) => name));
}

const given = namesBelow('Headers the core gets').map((name) => name.toLowerCase());
const withheld = namesBelow('Headers the core does not get');

async function namesSeen(...[line, sent]: [string, Parameters<typeof send>[2]]): Promise<string[]> {
  const { sidecar, upstream } = await startGateway();
  await send(sidecar, line, sent);
  return Object.keys(firstSeen(upstream).headers).filter((name) => name !== 'connection');
}

describe('the page for authors of payment cores', () => {
  test('lists all headers that a core gets for a request that has no headers itself', async () => {
    expect((await namesSeen('GET /', { key: keys.globex })).toSorted()).toEqual(given.toSorted());
  });

  test('lists the headers that a core gets with an envelope', async () => {
    const body = envelopeOf(acmeTest, '{}');
    const names = await namesSeen('POST /api/s2s/charge', { key: keys.acme, body });
    const besides = ['accept-encoding', 'content-length', 'content-type'];
    expect(names.toSorted()).toEqual([...given, ...besides].toSorted());
    for (const name of besides) expect(page.toLowerCase()).toContain(`\`${name}`);
  });

  test('lists the headers that a core gets with a preflight', async () => {
    const headers = { Origin: 'https://shop.example', 'Access-Control-Request-Method': 'POST' };
    const names = await namesSeen('OPTIONS /api/v1/transactions/initialize', { headers });
    const identity = new Set(['x-account-id', 'x-api-key-id', 'x-api-key-kind', 'x-environment']);
    const besides = ['origin', 'access-control-request-method'];
    expect(names.toSorted()).toEqual([...given.filter((name) => !identity.has(name)), ...besides].toSorted());
  });

  test('shows a configuration that forwards Authorization', () => {
    const shown = /```yaml\n(.*?)```/s.exec(page)?.[1] ?? '';
    const files = { 'sidecar.yaml': `listen: { port: 0 }\naccounts: { file: accounts.yaml }\n${shown}` };
    const folder = new Folder({ ...files, 'accounts.yaml': accountsFile() });
    const loaded = loadConfig(folder.file('sidecar.yaml'), {});
    expect(loaded).toMatchObject({ config: { environments: [{ upstream: { forwardsAuthorization: true } }] } });
  });

  test('lists headers that a core does not get, and the sidecar does not send them', async () => {
    expect(withheld.length).toBeGreaterThan(15);
    for (const name of withheld.filter((each) => !['Authorization', 'Connection'].includes(each))) {
      expect(await namesSeen('GET /', { key: keys.globex, headers: { [name]: 'x' } })).not.toContain(
        name.toLowerCase(),
      );
    }
  });
});

import { spawnSync } from 'node:child_process';
import { createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { beginning, lineAfter, publicText } from '../../src/audit/chain.ts';
import { commandsOn, lines } from '../support/command-line.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { describeOnEachStore } from '../support/stores.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const [, python = ''] = /^```python\n([^]*?)^```$/m.exec(readFileSync('docs/audit.md', 'utf8')) ?? [];

/** The members of an event that do not depend on its place in the chain. */
function untied(line: string): object {
  const { position: _, prev: _prev, sig: _sig, ...members } = JSON.parse(line) as Record<string, unknown>;
  return members;
}

/** Chains events to the end of lines that are kept unchanged. */
function chain(kept: readonly string[], events: readonly object[], key?: KeyObject): string[] {
  const all = [...kept];
  for (const event of events) {
    const last = all.at(-1);
    const end = last === undefined ? beginning : { position: all.length, hash: sha256Hex(Buffer.from(last)) };
    all.push(lineAfter(end, event, key).toString());
  }
  return all;
}

const keyChange = (key: KeyObject): object => ({ action: 'audit_key_changed', details: { key: publicText(key) } });
const event = { at: '2026-11-21T10:00:00.000Z', actor: 'user:eve', action: 'key_issued', account: 'a', details: {} };

/** The trail and the keys that the forgeries are made with. */
interface Forger {
  /** The trail has ten events; the first and the sixth change the key. */
  readonly trail: readonly string[];
  /** A key of the forger's own. */
  readonly other: KeyObject;
  /** The genuine key, which should have been kept secret. */
  readonly genuine: KeyObject;
}

/**
 * Forgeries, each with the problem that `audit verify` must report, and whether it can be detected only with an anchor.
 */
const forgeries: Readonly<Record<string, readonly [(forger: Forger) => string[], string, 'anchor'?]>> = {
  'an event has another actor': [
    ({ trail }) => trail.map((line, i) => (i === 3 ? line.replace('user:ana', 'user:ann') : line)),
    'event 4 is changed',
  ],
  'an event has the signature of another one': [
    ({ trail }) => trail.with(3, (trail[3] ?? '').replace(/"sig":.*/, /"sig":.*/.exec(trail[2] ?? '')?.[0] ?? '')),
    'event 4 is changed',
  ],
  'the first event was removed': [({ trail }) => trail.slice(1), 'event 1 is missing'],
  'an event in the middle was removed': [({ trail }) => trail.toSpliced(4, 1), 'event 5 is missing'],
  'the last event was removed': [({ trail }) => trail.slice(0, -1), 'event 10 is missing', 'anchor'],
  'two events were swapped': [({ trail }) => trail.with(6, trail[7] ?? '').with(7, trail[6] ?? ''), 'event 7 is moved'],
  'an event was copied to the end': [({ trail }) => [...trail, trail[4] ?? ''], 'event 11 is moved'],
  'an event was inserted by hand': [
    ({ trail }) => trail.toSpliced(4, 0, JSON.stringify(event)),
    'event 5 is unchained',
  ],
  'an event was appended by hand': [({ trail }) => [...trail, JSON.stringify(event)], 'event 11 is unchained'],
  'an event was chained to the end without the key': [({ trail }) => chain(trail, [event]), 'event 11 is unsigned'],
  'an event was chained to the end with another key': [
    ({ trail, other }) => chain(trail, [keyChange(other), event], other),
    'event 11 is changed',
  ],
  'all signatures were removed': [({ trail }) => chain([], trail.map(untied)), 'event 10 is unsigned'],
  'the signatures behind the fourth event were removed': [
    ({ trail }) => chain(trail.slice(0, 4), trail.slice(4).map(untied)),
    'event 5 is unsigned',
  ],
  'all was written anew with another key': [
    ({ trail, other }) => chain([], [keyChange(other), ...trail.slice(6).map(untied)], other),
    'event 5 is unsigned',
  ],
  'all was written anew with another key, which names the genuine one at the end': [
    ({ trail, other, genuine }) =>
      chain([], [keyChange(other), ...trail.slice(6).map(untied), keyChange(genuine)], other),
    'event 6 is unsigned',
  ],
  'the end was written anew with the genuine key': [
    ({ trail, genuine }) => chain(trail.slice(0, 8), [event, ...trail.slice(9).map(untied)], genuine),
    'event 9 is changed',
    'anchor',
  ],
};

describeOnEachStore('an auditor who has an exported trail, the public key and the log', (newStore) => {
  test('finds each forgery, and names the first event affected', { timeout: 120_000 }, async () => {
    const [first, genuine, other] = Array.from({ length: 3 }, () => generateKeyPairSync('ed25519').privateKey) as [
      KeyObject,
      KeyObject,
      KeyObject,
    ];
    const pem = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'pem' });
    const folder = new Folder({
      'accounts.yaml': 'accounts: []\n',
      'sidecar.yaml': sidecarFile('http://127.0.0.1:1', {
        accounts: await newStore(),
        audit: { key: { file: 'audit.pem' } },
      }),
    });
    const { run } = commandsOn(folder.file('sidecar.yaml'));
    const anchors: string[] = [];
    const add = async (...ids: readonly string[]): Promise<void> => {
      for (const id of ids) {
        const logged = lines((await run(`accounts add ${id} --name Name --actor ana`)).stderr);
        for (const line of logged) {
          const { position, hash } = JSON.parse(line) as { position: number; hash: string };
          anchors.push(` --anchor ${position}:${hash}`);
        }
      }
    };
    folder.write({ 'audit.pem': pem(first) });
    await add('a', 'b', 'c', 'd');
    folder.write({ 'audit.pem': pem(genuine) + pem(first) });
    await add('e', 'f', 'g', 'h');
    const trail = lines((await run('audit export')).stdout);
    expect([trail.length, anchors.length]).toEqual([10, 10]);

    folder.write({
      'verify.py': python,
      'public.pem': createPublicKey(genuine).export({ type: 'spki', format: 'pem' }),
      'trail.jsonl': `${trail.join('\n')}\n`,
    });
    const verify = async (withAnchors: string) =>
      run(`audit verify --trail ${folder.file('trail.jsonl')} --key ${folder.file('public.pem')}${withAnchors}`);
    const script = () => spawnSync('python3', ['verify.py', 'trail.jsonl', 'public.pem'], { cwd: folder.path }).status;
    expect(await verify(anchors.join(''))).toMatchObject({ code: 0, stdout: 'OK: 10 events, 10 signed\n' });
    expect(script()).toBe(0);

    const found: Record<string, unknown> = {};
    const expected: Record<string, unknown> = {};
    for (const [what, [forge, problem, needed]] of Object.entries(forgeries)) {
      writeFileSync(folder.file('trail.jsonl'), `${forge({ trail, other, genuine }).join('\n')}\n`);
      const { code, stderr } = await verify(needed === undefined ? '' : anchors.join(''));
      found[what] = [code, stderr.replace(/^audit verify: (event \d+ is \w+): .*\n$/, '$1'), script()];
      expected[what] = [1, problem, needed === undefined ? 1 : 0];
    }
    expect(found).toEqual(expected);
  });
});

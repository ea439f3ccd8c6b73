import { spawnSync } from 'node:child_process';
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { beginning, lineAfter, publicText, type Link } from '../../src/audit/chain.ts';
import { Folder, sidecarFile } from '../support/folder.ts';
import { commandsOn } from '../support/command-line.ts';
import { describeOnEachStore } from '../support/stores.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const page = readFileSync('docs/audit.md', 'utf8');

/** The code of a fenced block in a section. */
function block(heading: string, info: string): string {
  const [, section = ''] = page.split(`\n## ${heading}\n`);
  const [, code = ''] = new RegExp(`^\`\`\`${info}\n([^]*?)^\`\`\`$`, 'm').exec(section) ?? [];
  expect(code).not.toBe('');
  return code;
}

const withoutSidecar = 'Verify it without the sidecar';
const scripts = { 'verify.py': block(withoutSidecar, 'python'), 'verify.sh': block(withoutSidecar, 'sh') };

const verifiers = [
  ['python3', 'verify.py'],
  ['sh', 'verify.sh'],
] as const;

const newKey = (): KeyObject => generateKeyPairSync('ed25519').privateKey;
const keyChange = (key: KeyObject): object => ({ action: 'audit_key_changed', details: { key: publicText(key) } });

/** Chains events. Each is signed with the key next to it. */
function chained(events: readonly (readonly [object, KeyObject])[]): string[] {
  let last: Link = beginning;
  return events.map(([event, key]) => {
    const line = lineAfter(last, event, key);
    last = { position: last.position + 1, hash: sha256Hex(line) };
    return line.toString();
  });
}

/** Returns another base64 digit. As the last digit of 64 bytes, it decodes to the same bytes, because only its first two bits count. */
const otherDigit = (digit: string): string => String.fromCodePoint((digit.codePointAt(0) ?? 0) + 1);

/** A trail that was signed again with another key, and that names the genuine key at its end. */
function forgedBy(trail: readonly string[], genuine: KeyObject): readonly string[] {
  const key = newKey();
  const events = trail.slice(1).map((line) => {
    const { position: _, prev: _prev, sig: _sig, ...members } = JSON.parse(line) as Record<string, unknown>;
    return members;
  });
  return chained([keyChange(key), ...events, keyChange(genuine)].map((event) => [event, key]));
}

test('the scripts and the command agree on events that were taken over, on the first signature, and on a trail without events', async () => {
  const [key, other] = [newKey(), newKey()];
  const event = { action: 'key_issued', details: {} };
  const takenOver = { older: 1, ...keyChange(other) };
  const begun = [keyChange(key), event].map((each) => [each, key] as const);
  const folder = new Folder({
    'sidecar.yaml': sidecarFile('http://127.0.0.1:1'),
    'audit-public.pem': createPublicKey(key).export({ type: 'spki', format: 'pem' }),
    ...scripts,
  });
  const { run } = commandsOn(folder.file('sidecar.yaml'));
  const trails: Readonly<Record<string, readonly [readonly string[], number]>> = {
    'one that was taken over names another key': [chained([...begun, [takenOver, key], [event, key]]), 0],
    'the other key signs from there on': [chained([...begun, [takenOver, key], [event, other]]), 1],
    'the first event announces no key': [chained([[event, key]]), 0],
    'the first event is signed by another key': [chained([[event, other]]), 1],
    'no events': [[], 1],
  };
  for (const [what, [trail, expected]] of Object.entries(trails)) {
    folder.write({ 'trail.jsonl': trail.map((line) => `${line}\n`).join('') });
    const statuses = verifiers.map(
      ([program, script]) =>
        spawnSync(program, [script, 'trail.jsonl', 'audit-public.pem'], { cwd: folder.path }).status,
    );
    const { code } = await run(
      `audit verify --trail ${folder.file('trail.jsonl')} --key ${folder.file('audit-public.pem')}`,
    );
    expect([what, code, ...statuses]).toEqual([what, expected, expected, expected]);
  }
});

/** The number of changes in the trail. An auditor's scripts have to cope with at least as many. */
const changes = 100;

describeOnEachStore('the page on the audit trail', (newStore) => {
  test('replaces the key without a refused change while two hosts reload one after the other', async () => {
    const pem = (key: KeyObject): string => key.export({ type: 'pkcs8', format: 'pem' });
    const [before, after] = [newKey(), newKey()];
    const accounts = await newStore();
    const sidecarYaml = (key: string) => sidecarFile('http://127.0.0.1:1', { accounts, audit: { key: { file: key } } });
    const folder = new Folder({
      'accounts.yaml': 'accounts: []\n',
      'one.yaml': sidecarYaml('one.pem'),
      'two.yaml': sidecarYaml('two.pem'),
    });
    const hosts = ['one', 'two'];
    const steps = [[before], [before, after], [after, before], [after]];
    let added = 0;
    for (const keys of steps) {
      for (const host of hosts) {
        folder.write({ [`${host}.pem`]: keys.map(pem).join('') });
        // Add nothing until both hosts have a key.
        if (keys === steps[0] && host === 'one') continue;
        for (const changing of hosts) {
          added += 1;
          const { code, stderr } = await commandsOn(folder.file(`${changing}.yaml`)).run(
            `accounts add a${added} --name A`,
          );
          expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
        }
      }
    }
    const publicPem = (key: KeyObject): string => createPublicKey(key).export({ type: 'spki', format: 'pem' });
    folder.write({ 'before.pem': publicPem(before), 'after.pem': publicPem(after) });
    const files = ['before.pem', 'after.pem'].map((name) => `--key ${folder.file(name)}`);
    const { code, stdout } = await commandsOn(folder.file('one.yaml')).run(`audit verify ${files.join(' ')}`);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^OK: (\d+) events, \1 signed\n$/) as string,
    });
  });

  test(
    'signs, exports and verifies a trail; its scripts accept the trail, and refuse it if it has been changed',
    { timeout: 300_000 },
    async () => {
      const audit = { key: { file: 'audit.pem' } };
      const folder = new Folder({
        'accounts.yaml': 'accounts: []\n',
        'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { accounts: await newStore(), audit }),
        ...scripts,
      });
      const run = (command: string, ...args: readonly string[]) => {
        const env = {
          ...process.env,
          PATH: `${resolve('bin')}:${process.env['PATH'] ?? ''}`,
          SIDECAR_CONFIG: folder.file('sidecar.yaml'),
        };
        const { status, stdout, stderr } = spawnSync(command, args, { cwd: folder.path, env, encoding: 'utf8' });
        return { status, stdout, stderr };
      };
      expect(run('sh', '-euc', block('Sign it', 'sh run')).status).toBe(0);
      const lines = Array.from({ length: changes }, (_, i) => JSON.stringify({ id: `a${i}`, name: `Ä "${i}"` }));
      folder.write({ 'accounts.ndjson': lines.join('\n') });
      const cli = commandsOn(folder.file('sidecar.yaml'));
      const { code, stderr } = await cli.run(`accounts import ${folder.file('accounts.ndjson')}`);
      expect(code).toBe(0);
      expect(run('sh', '-euc', block('Verify it', 'sh run'))).toMatchObject({
        status: 0,
        stdout: `OK: ${changes + 1} events, ${changes + 1} signed\n`,
      });
      // An actor's name may look like other members of the line.
      const named = stderr.replaceAll(/(?<="actor":")/g, String.raw`\"position\":9,\"hash\":\"00\",`);
      expect(named.length).toBeGreaterThan(stderr.length);
      folder.write({ 'sidecar.log': `{"msg":"starting"}\n${named}` });
      const verifyWithLog = () => run('sh', '-euc', block('Verify it', 'sh anchors')).status;
      expect(verifyWithLog()).toBe(0);
      folder.write({ 'sidecar.log': '{"msg":"starting"}\n' });
      expect(verifyWithLog()).not.toBe(0);
      // Pretend that the end of the trail has been cut off.
      folder.write({ 'sidecar.log': stderr.replace(`"position":${changes + 1},`, `"position":${changes + 2},`) });
      expect(verifyWithLog()).not.toBe(0);
      for (const [program, script] of verifiers) {
        expect(run(program, script, 'trail.jsonl', 'audit-public.pem')).toMatchObject({
          status: 0,
          stdout: `OK: ${changes + 1} events\n`,
        });
      }
      const trail = readFileSync(folder.file('trail.jsonl'), 'utf8').split('\n');
      const genuine = createPrivateKey(readFileSync(folder.file('audit.pem')));
      const forgeries: Readonly<Record<string, readonly string[]>> = {
        changed: trail.with(2, (trail[2] ?? '').replace('account_imported', 'account_removed')),
        removed: trail.toSpliced(3, 1),
        // The changed event is near the beginning, because the shell script starts several processes per event.
        'not signed': trail.with(20, (trail[20] ?? '').replace(/,"sig":"[^"]*"/, '')),
        'followed by members': trail.with(20, `${(trail[20] ?? '').slice(0, -1)},"actor":"token:mallory"}`),
        'ended by a member': [...trail.slice(0, 20), `${(trail[20] ?? '').slice(0, -1)},"actor":"token:mallory"}`, ''],
        'another text of its signature': [...trail.slice(0, 20), (trail[20] ?? '').replace(/.(?===)/, otherDigit), ''],
        'more behind its signature': [...trail.slice(0, 20), (trail[20] ?? '').replace('=="', '==AAAA"'), ''],
        'with a NUL byte': trail.with(20, (trail[20] ?? '').replace('}', '\0}')),
        'with a return': [...trail.slice(0, 20), `${trail[20] ?? ''}\r`, ''],
        'signed by another key, which names this one': [...forgedBy(trail.slice(0, 20), genuine), ''],
      };
      for (const [what, forged] of Object.entries(forgeries)) {
        writeFileSync(folder.file('trail.jsonl'), forged.join('\n'));
        for (const [program, script] of verifiers) {
          expect([what, program, run(program, script, 'trail.jsonl', 'audit-public.pem').status]).toEqual([
            what,
            program,
            1,
          ]);
        }
        const verify = ['audit', 'verify', '--trail', 'trail.jsonl', '--key', 'audit-public.pem'];
        expect([what, run('sidecar', ...verify).status]).toEqual([what, 1]);
      }
    },
  );
});

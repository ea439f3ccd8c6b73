import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import { expect, test } from 'vitest';
import { acmeTest } from '../support/sidecar.ts';
import { startServe } from '../support/command.ts';
import { Folder, globexEntry, accountsFile, sidecarFile } from '../support/folder.ts';

/** Counts how often texts occur in the memory of a process, counting each page once. Linux only. */
function occurrences(pid: number, needles: Readonly<Record<string, Buffer>>): Record<string, number> {
  const counts = Object.fromEntries(Object.keys(needles).map((name) => [name, 0]));
  const memory = openSync(`/proc/${pid}/mem`, 'r');
  try {
    for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
      const [, from = '', to = ''] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line) ?? [];
      if (from === '') continue;
      const region = readRegion(memory, Number.parseInt(from, 16), Number.parseInt(to, 16));
      for (const [name, needle] of Object.entries(needles)) {
        for (let at = region.indexOf(needle); at !== -1; at = region.indexOf(needle, at + 1)) {
          counts[name] = (counts[name] ?? 0) + 1;
        }
      }
    }
  } finally {
    closeSync(memory);
  }
  return counts;
}

/** Pages that cannot be read, as those of a thread that has just ended, are empty. */
function readRegion(memory: number, from: number, to: number): Buffer {
  const region = Buffer.alloc(to - from);
  try {
    for (let at = 0; at < region.length;) {
      const read = readSync(memory, region, at, region.length - at, from + at);
      if (read === 0) break;
      at += read;
    }
  } catch {
    // The region was unmapped meanwhile.
  }
  return region;
}

test('reloads leave no further copies of secrets in the memory of the process', { timeout: 60_000 }, async () => {
  const masterKey = Buffer.from(Array.from({ length: 32 }, (_, i) => (i * 37 + 11) % 256));
  const texts = {
    'master-key': masterKey.toString('base64'),
    token: `operators-token-${'q7Zx'.repeat(8)}`,
    'api-key': `sk_test_${'Vw93'.repeat(6)}`,
  };
  const entry = {
    ...globexEntry(),
    keys: [{ id: 'k', key: { file: 'api-key' }, createdAt: '2026-11-01' }],
    // An account that encrypts has its IV posted as bytes.
    encryption: { test: { enabled: true, ...acmeTest } },
  };
  const folder = new Folder({
    'sidecar.yaml': sidecarFile('http://127.0.0.1:1', {
      accounts: { file: 'accounts.yaml', masterKey: { file: 'master-key' } },
      operators: { port: 0, token: { file: 'token' } },
    }),
    'accounts.yaml': accountsFile(entry),
    ...texts,
  });
  const sidecar = await startServe(folder.file('sidecar.yaml'));
  for (let reloads = 1; reloads <= 20; reloads += 1) {
    sidecar.signal('SIGHUP');
    await sidecar.untilEntries('configuration reloaded', reloads);
  }
  const counts = occurrences(sidecar.process.pid ?? 0, {
    bytes: masterKey,
    ...Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, Buffer.from(text)])),
  });
  // The master key in use.
  expect(counts['bytes']).toBe(1);
  // Texts are in memory of ended threads that was not used again. One more a reload would be 20.
  expect(Object.entries(counts).filter(([, count]) => count > 8)).toEqual([]);
});

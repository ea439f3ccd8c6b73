import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config/load.ts';
import { accountsFile, Folder, sidecarFile } from '../support/folder.ts';
import { commandMemory, memoryBound, workedExamples } from '../support/memory-bound.ts';

const guide = readFileSync('docs/operators/capacity.md', 'utf8');
const examples = workedExamples(guide);

test('the memory in the guide for operators is the sum of its terms', () => {
  expect(examples).toHaveLength(3);
  for (const { mebibytes, ...terms } of examples) {
    expect(Math.ceil(memoryBound(terms) / 1_048_576)).toBe(mebibytes);
  }
});

test('the first example has the default limits', () => {
  const folder = new Folder({ 'sidecar.yaml': sidecarFile('http://127.0.0.1:1'), 'accounts.yaml': accountsFile() });
  const loaded = loadConfig(folder.file('sidecar.yaml'), {});
  if (!loaded.ok) throw new Error('the configuration does not load');
  const { requestBody, buffered, header, inFlight, connections } = loaded.config.limits;
  expect(examples[0]).toMatchObject({ requestBody, buffered, header, inFlight, connections });
});

test('the second example fits into the smallest container that the guide names', () => {
  expect(examples[1]?.mebibytes).toBeLessThan(128);
});

test.each(['base', 'overlays/test', 'overlays/live'])('the third example is deploy/%s, and fits its pod', (folder) => {
  const { limits } = parse(readFileSync(`deploy/${folder}/sidecar.yaml`, 'utf8')) as { limits: unknown };
  expect(limits).toEqual({ buffered: '16MiB', inFlight: 64, connections: 1_024 });
  expect(examples[2]).toMatchObject({ buffered: 16 * 1_048_576, inFlight: 64, connections: 1_024 });
  expect(parse(readFileSync(`deploy/${folder}/sidecar.yaml`, 'utf8'))).not.toHaveProperty('operators');
  expect(examples[2]?.mebibytes).toBeLessThanOrEqual(roomInPod());
});

/** The memory of the sidecar's container minus the memory that a command needs, in MiB. */
function roomInPod(): number {
  const patch = readFileSync('deploy/components/envelope-sidecar/deployment-patch.yaml', 'utf8');
  const [, memory = ''] = /limits: \{ memory: (\d+)Mi \}/.exec(patch) ?? [];
  expect(guide).toContain(`The ${memory} MiB of the containers in \`deploy/\` are enough`);
  return Number(memory) - commandMemory;
}

test('deploy/overlays/live-postgres has a cache that fits its pod, and the page states the sum', () => {
  const text = readFileSync('deploy/overlays/live-postgres/sidecar.yaml', 'utf8');
  const { accounts, limits, operators } = parse(text) as {
    accounts: { postgres: { cache: number } };
    limits: unknown;
    operators: unknown;
  };
  expect(operators).toBeDefined();
  expect(limits).toEqual({ buffered: '16MiB', inFlight: 64, connections: 1_024 });
  const [, , example] = examples;
  if (example === undefined) throw new Error('no third example');
  const { cache } = accounts.postgres;
  const sum = Math.ceil(memoryBound({ ...example, accounts: 0, cache, operators: true }) / 1_048_576);
  expect(`${sum} MiB`).toBe('255 MiB');
  expect(sum).toBeLessThanOrEqual(roomInPod());
  expect(guide).toContain(`has one of ${cache.toLocaleString('en')} and \`operators\`, and needs ${sum} MiB`);
  expect(guide).toContain('the default `cache` takes 39 MiB');
  expect(readFileSync('docs/configuration.md', 'utf8')).toContain('`cache` (whole number; default `10000`)');
});

test('the page states the sum for deploy/ with the threads that an accounts file and `operators` need', () => {
  const [, , example] = examples;
  if (example === undefined) throw new Error('no third example');
  const sum = Math.ceil(memoryBound({ ...example, operators: true }) / 1_048_576);
  expect(`${sum} MiB`).toBe('805 MiB');
  expect(guide).toContain(`\`operators\`, the limits of \`deploy/\` need ${sum} MiB`);
});

test('with TLS, a sixth of the connections fit into the same containers', () => {
  expect(guide).toContain('connections × (10 KiB + `header`), or with TLS connections × (128 KiB + `header`)');
  for (const { mebibytes, ...terms } of examples) {
    const secured = memoryBound({ ...terms, connections: terms.connections / 6, tls: true });
    expect(secured / 1_048_576).toBeLessThan(mebibytes * 1.01);
  }
  expect(readFileSync('deploy/base/sidecar.yaml', 'utf8')).toContain('with listen.tls only 170 connections');
});

test('the guide states the size of the queue of log lines', () => {
  expect(readFileSync('src/telemetry/log-output.ts', 'utf8')).toContain('mostWaiting = 4 * 1_048_576;');
  expect(readFileSync('docs/operators/monitor.md', 'utf8')).toContain('4 MiB of lines');
  expect(guide).toContain('- 4 MiB: log lines');
});

test('the guide lists the flags of the image', () => {
  const [, flags = ''] =
    /^ENTRYPOINT \["node", (.*), "\/app\/dist\/main\.js"\]$/m.exec(readFileSync('Dockerfile', 'utf8')) ?? [];
  expect(flags.split(', ').length).toBeGreaterThan(4);
  expect(guide).toContain(`\`${flags.replaceAll(/"|,/g, '')}\`.`);
});

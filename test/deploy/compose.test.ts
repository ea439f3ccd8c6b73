import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config/load.ts';

interface Service {
  readonly image: string;
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly stop_grace_period?: string;
  readonly [member: string]: unknown;
}

const folder = 'deploy/compose';
const { services } = parse(readFileSync(`${folder}/compose.yaml`, 'utf8')) as {
  readonly services: Readonly<Record<string, Service>>;
};
const page = readFileSync('docs/operators/image.md', 'utf8');

test('the compose example runs the sidecar as `docker run` does on the page about the image', () => {
  const [command = ''] = /docker run --rm --volume "\$PWD\/config[^`]*--cap-drop ALL \S+/.exec(page) ?? [];
  const { sidecar } = services;
  expect(command).toContain(sidecar?.image);
  expect(sidecar).toMatchObject({ read_only: true, tmpfs: ['/tmp'], cap_drop: ['ALL'] });
  const { volumes: [volume = ''] = [], ports = [] } = sidecar ?? {};
  expect(command).toContain(volume.replace('./', '$PWD/'));
  expect(ports).toHaveLength(2);
  for (const port of ports) expect(command).toContain(`--publish ${port}`);
});

test('the configuration of the compose example is valid, fits its ports and reaches the core, which nothing else can reach', () => {
  const loaded = loadConfig(`${folder}/config/sidecar.yaml`, {}, 'problem');
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const { listen, admin, environments, timeouts } = loaded.config;
  expect(loaded.warnings).toEqual([]);
  expect(services['sidecar']?.ports).toEqual([
    `${listen.port}:${listen.port}`,
    `127.0.0.1:${admin.port}:${admin.port}`,
  ]);
  const [environment] = environments;
  expect(environment?.upstream.origin).toBe('http://core:3000');
  const { core } = services;
  expect(core).toMatchObject({ expose: ['3000'] });
  expect(core).not.toHaveProperty('ports');
  const grace = Number.parseInt(services['sidecar']?.stop_grace_period ?? '', 10) * 1_000;
  expect(grace).toBeGreaterThan(timeouts.drain);
});

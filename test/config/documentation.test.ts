import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { generate } from '../../scripts/generate-config-docs.ts';

const generated = await generate();

test.each([...generated.keys()])('%s is what `node scripts/generate-config-docs.ts` writes', (path) => {
  expect(readFileSync(path, 'utf8')).toBe(generated.get(path));
});

describe.each(['sidecar', 'accounts'])('config/%s.schema.json', (name) => {
  const schema = JSON.parse(readFileSync(`config/${name}.schema.json`, 'utf8')) as Parameters<
    typeof z.fromJSONSchema
  >[0];
  const example: unknown = parse(readFileSync(`config/${name}.yaml`, 'utf8'));

  test('accepts the shipped file', () => {
    expect(z.fromJSONSchema(schema).safeParse(example).error).toBeUndefined();
  });

  test('rejects an unknown member', () => {
    expect(z.fromJSONSchema(schema).safeParse({ ...(example as object), unknown: 1 }).success).toBe(false);
  });

  test('has patterns that every editor can read', () => {
    const patterns = JSON.stringify(schema).match(/(?<="pattern":)"(?:[^"\\]|\\.)*"/g) ?? [];
    expect(patterns.length).toBeGreaterThan(10);
    for (const pattern of patterns) expect(() => new RegExp(JSON.parse(pattern) as string, 'u')).not.toThrow();
  });
});

test.each([
  ['{ file: a }', true],
  ['"${LEVEL}"', true],
  ['info', true],
  ['loud', false],
  ['5', false],
])('the schema for editors accepts the log level %s: %s', (level, valid) => {
  const schema = JSON.parse(generated.get('config/sidecar.schema.json') ?? '') as Parameters<
    typeof z.fromJSONSchema
  >[0];
  const sidecar: unknown = parse(
    `{ listen: {}, environments: {}, accounts: { file: a }, log: { level: ${level} }, limits: { header: 1024 } }`,
  );
  expect(z.fromJSONSchema(schema).safeParse(sidecar).success).toBe(valid);
});

test('docs/configuration.md names every member of both files', () => {
  const page = generated.get('docs/configuration.md') ?? '';
  const schemas = ['sidecar', 'accounts'].map((name) => generated.get(`config/${name}.schema.json`) ?? '');
  const members = new Set(schemas.flatMap((schema) => membersOf(JSON.parse(schema))));
  for (const member of ['clientCa', 'drain', 'revokedAt', 'until']) expect(members).toContain(member);
  expect([...members].filter((member) => !new RegExp(`^ *- \`${member}\`[ :]`, 'm').test(page))).toEqual([]);
  expect(page).not.toContain('undefined');
});

/** The names of all members that a part of a schema describes. */
function membersOf(part: unknown): string[] {
  if (typeof part !== 'object' || part === null) return [];
  const names = 'properties' in part ? Object.keys(part.properties as object) : [];
  return [...names, ...Object.values(part).flatMap(membersOf)];
}

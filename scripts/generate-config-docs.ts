import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { parse } from 'yaml';
import { z } from 'zod';
import { accountsSchema } from '../src/accounts/file/schema.ts';
import { sidecarSchema } from '../src/config/schema.ts';
import type { DemoAccounts } from '../src/demo/commands.ts';
import { openApi } from '../src/operators/openapi.ts';
import { Files } from '../src/yaml/files.ts';
import { valuesIn } from '../src/yaml/values.ts';
import { commandsPage } from './commands-page.ts';
import { configurationPage } from './configuration-page.ts';
import { cryptographyPage } from './cryptography-page.ts';
import { merchantsOpenApi } from './merchants-openapi.ts';
import { withTables, type DemoCredentials } from './merchants-page.ts';
import type { JsonSchema } from './schema-lists.ts';

const root = fileURLToPath(new URL('../', import.meta.url));

/** The generated JSON Schemas, OpenAPI documents and pages, by their paths from the root of the project. */
export async function generate(): Promise<ReadonlyMap<string, string>> {
  const values = valuesIn({ directory: '', files: new Files() }, {});
  const sidecar = jsonSchema('sidecar', 'The file of envelope-sidecar', sidecarSchema(values));
  const accounts = jsonSchema('accounts', 'The accounts of envelope-sidecar', accountsSchema(values));
  const page = configurationPage({ sidecar, accounts });
  const merchants = readFileSync(`${root}docs/merchants.md`, 'utf8');
  const demo = demoCredentials();
  return new Map([
    ['config/sidecar.schema.json', await formatted('config/sidecar.schema.json', JSON.stringify(sidecar))],
    ['config/accounts.schema.json', await formatted('config/accounts.schema.json', JSON.stringify(accounts))],
    ['docs/configuration.md', await formatted('docs/configuration.md', page)],
    ['docs/merchants.md', await formatted('docs/merchants.md', withTables(merchants, { demo, sidecar }))],
    [
      'docs/merchants.openapi.json',
      await formatted('docs/merchants.openapi.json', JSON.stringify(merchantsOpenApi(demo))),
    ],
    ['docs/commands.md', await formatted('docs/commands.md', commandsPage())],
    ['docs/cryptography.md', await formatted('docs/cryptography.md', cryptographyPage())],
    ['docs/operators.openapi.json', await formatted('docs/operators.openapi.json', JSON.stringify(openApi()))],
  ]);
}

/** The credentials of the account that encrypts in the shipped configuration. */
function demoCredentials(): DemoCredentials {
  const { accounts } = parse(readFileSync(`${root}config/accounts.yaml`, 'utf8')) as DemoAccounts;
  const credentials = accounts.find(({ encryption }) => encryption !== undefined)?.encryption?.test;
  if (credentials === undefined) throw new Error('no account of the demo encrypts');
  return credentials;
}

function jsonSchema(name: string, title: string, schema: z.ZodType): JsonSchema {
  return {
    $id: `urn:envelope-sidecar:${name}.schema.json`,
    title,
    ...z.toJSONSchema(schema, { io: 'input' }),
  } as JsonSchema;
}

async function formatted(path: string, text: string): Promise<string> {
  return format(text, { ...(await resolveConfig(`${root}${path}`)), filepath: path });
}

if (import.meta.main) {
  for (const [path, text] of await generate()) writeFileSync(`${root}${path}`, text);
}

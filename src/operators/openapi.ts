import { z } from 'zod';
import type { Endpoint } from './endpoint.ts';
import { apiRoot, endpoints } from './endpoints.ts';
import { problemDocument } from './problems.ts';
import { views } from './views.ts';

type Json = Readonly<Record<string, unknown>>;

const idempotencyKey = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'A repeated request with the same key creates nothing. Its response contains the same object, as it was after the first request, ' +
    'but without the secret and with `secret_shown: false`.',
  schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\x21-\\x7E]*$' },
};

/** The description of the API, in OpenAPI 3.1. */
export function openApi(): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const endpoint of endpoints) {
    (paths[apiRoot + endpoint.path] ??= {})[endpoint.method.toLowerCase()] = operation(endpoint);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: "envelope-sidecar operators' API",
      version: '1.0.0',
      description: 'Accounts, their API keys and their encryption. See docs/operators-api.md.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/', description: 'The listener that serves this document.' }],
    security: [{ token: [] }],
    paths,
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
      schemas: viewSchemas(),
      responses: {
        Problem: {
          description: 'The request was refused or failed.',
          content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
        },
      },
    },
  };
}

function operation({ path, method, operation, summary, input, response, makesSecret, rawBody }: Endpoint): Json {
  const schema = z.toJSONSchema(input, { io: 'input' });
  const members = Object.entries(schema.properties ?? {});
  const inPath = new Set([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name));
  const sent = members.filter(([name]) => !inPath.has(name));
  const required = (schema.required ?? []).filter((name) => !inPath.has(name));
  const parameters: Json[] = members
    .filter(([name]) => inPath.has(name))
    .map(([name, schema]) => ({ name, in: 'path', required: true, schema }));
  if (method === 'GET') {
    for (const [name, schema] of sent) {
      parameters.push({ name, in: 'query', required: required.includes(name), schema });
    }
  }
  if (makesSecret) parameters.push(idempotencyKey);
  const hasBody = method === 'POST' && sent.length > 0;
  const body = {
    type: 'object',
    properties: Object.fromEntries(sent),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  };
  return {
    operationId: operation,
    summary,
    ...(parameters.length > 0 && { parameters }),
    ...(hasBody && {
      requestBody: { required: required.length > 0, content: { 'application/json': { schema: body } } },
    }),
    ...(rawBody && {
      requestBody: { required: true, content: { '*/*': { schema: { type: 'string', format: 'binary' } } } },
    }),
    responses: {
      [response.status]: {
        description: views[response.view].description ?? response.view,
        content: { 'application/json': { schema: { $ref: referenceTo(response.view) } } },
      },
      '4XX': { $ref: '#/components/responses/Problem' },
      '5XX': { $ref: '#/components/responses/Problem' },
    },
  };
}

function viewSchemas(): Json {
  const registry = z.registry<{ id: string }>();
  for (const [id, view] of Object.entries({ ...views, Problem: problemDocument })) registry.add(view, { id });
  const { schemas } = z.toJSONSchema(registry, { io: 'input', uri: referenceTo });
  return Object.fromEntries(
    Object.entries(schemas).map(([id, { $schema: _schema, $id: _id, ...schema }]) => [id, schema]),
  );
}

function referenceTo(id: string): string {
  return `#/components/schemas/${id}`;
}

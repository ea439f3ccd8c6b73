// A client of the operators' API as its users would write it. openapi.test.ts compiles it against freshly generated
// types and runs it.
import createClient from 'openapi-fetch';
import type { components, paths } from '../../src/console/api-types.ts';

const { BASE = '', TOKEN = '' } = process.env;
const api = createClient<paths>({ baseUrl: BASE, headers: { Authorization: `Bearer ${TOKEN}` } });

type Problem = components['schemas']['Problem'];

async function done<Data>(
  asked: Promise<{ readonly data?: Data; readonly error?: Problem; readonly response: Response }>,
): Promise<Data> {
  const { data, error, response } = await asked;
  if (data === undefined) throw new Error(`${response.url}: ${response.status} ${error?.code}: ${error?.detail}`);
  return data;
}

const account = { account: 'acme' };
const live = { ...account, environment: 'live' as const };

const { role }: { role: 'viewer' | 'operator' | 'admin' | 'core' } = await done(api.GET('/api/v1/session'));
if (role !== 'admin') throw new Error(role);

await done(api.POST('/api/v1/accounts', { body: { id: 'acme', name: 'Acme' } }));
await done(api.POST('/api/v1/accounts/{account}/rename', { params: { path: account }, body: { name: 'Acme Ltd' } }));
await done(api.POST('/api/v1/accounts/{account}/deactivate', { params: { path: account } }));
await done(api.POST('/api/v1/accounts/{account}/activate', { params: { path: account } }));
const old = { account: 'old' };
await done(api.POST('/api/v1/accounts', { body: { id: 'old', name: 'Old' } }));
await done(api.POST('/api/v1/accounts/{account}/deactivate', { params: { path: old } }));
await done(api.POST('/api/v1/accounts/{account}/remove', { params: { path: old } }));

const issued = await done(
  api.POST('/api/v1/accounts/{account}/keys', {
    params: { path: account, header: { 'Idempotency-Key': 'first' } },
    body: { environment: 'live', kind: 'secret', expires_in: '20d' },
  }),
);
const key: string = issued.key ?? '';
const rotated = await done(
  api.POST('/api/v1/accounts/{account}/keys/{key}/rotate', {
    params: { path: { ...account, key: issued.id } },
    body: { overlap: '1d' },
  }),
);
const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(key));
const sha256 = Buffer.from(digest).toString('hex');
const found = await done(api.GET('/api/v1/keys/find', { params: { query: { sha256 } } }));
if (found.id !== issued.id || found.account !== 'acme') throw new Error('another key was found');
await done(
  api.POST('/api/v1/accounts/{account}/keys/{key}/revoke', { params: { path: { ...account, key: issued.id } } }),
);
const { due } = await done(api.GET('/api/v1/due', { params: { query: { limit: 10 } } }));
if (due.map(({ id }) => id).join() !== rotated.id) throw new Error('another key expires');
const { keys } = await done(api.GET('/api/v1/accounts/{account}/keys', { params: { path: account } }));
const { use } = await done(
  api.GET('/api/v1/accounts/{account}/keys/{key}', { params: { path: { ...account, key: issued.id } } }),
);
if (use.hours.length !== 24) throw new Error('a day has not 24 hours');
if (keys.length !== 2) throw new Error('there are not two keys');

const enabled = await done(
  api.POST('/api/v1/accounts/{account}/encryption/{environment}/enable', {
    params: { path: live },
    body: { encoding: 'base64', grace: '24h' },
  }),
);
if (enabled.key?.length !== 32 || enabled.iv?.length !== 16) throw new Error('no key and IV');
const until = new Date(Date.now() + 3_600_000).toISOString();
await done(
  api.POST('/api/v1/accounts/{account}/encryption/{environment}/grace', { params: { path: live }, body: { until } }),
);
const { graces } = await done(api.GET('/api/v1/graces'));
if (graces[0]?.previous?.accepts !== 'plaintext') throw new Error('no grace');
await done(api.POST('/api/v1/accounts/{account}/encryption/{environment}/grace/end', { params: { path: live } }));
const shown = await done(api.GET('/api/v1/accounts/{account}/encryption/{environment}', { params: { path: live } }));
if (!shown.enabled || shown.encoding !== 'base64') throw new Error('not enabled');
const sealed = await done(
  api.POST('/api/v1/accounts/{account}/encryption/{environment}/seal', { params: { path: live }, body: 'paid' }),
);
if (sealed.data.length === 0) throw new Error('not sealed');
await done(api.POST('/api/v1/accounts/{account}/encryption/{environment}/disable', { params: { path: live } }));

const { accounts, next } = await done(
  api.GET('/api/v1/accounts', { params: { query: { search: 'LTD', filter: 'expiring', limit: 1 } } }),
);
if (accounts[0]?.name !== 'Acme Ltd' || next !== null) throw new Error('not found');
await done(api.GET('/api/v1/accounts/{account}', { params: { path: account } }));
await done(api.GET('/api/v1/overview'));
await done(api.GET('/api/v1/traffic', { params: { query: { span: '24h' } } }));
await done(api.GET('/api/v1/configuration'));
await done(api.POST('/api/v1/diagnosis', { body: { key: 'k'.repeat(32), iv: 'i'.repeat(16), data: '00' } }));
await done(api.GET('/api/v1/activity', { params: { query: account } }));
await done(api.GET('/api/v1/failures'));
const { events } = await done(api.GET('/api/v1/audit', { params: { query: account } }));
if (events.at(-1)?.action !== 'account_added') throw new Error('no trail');

const { error } = await api.GET('/api/v1/accounts/{account}', { params: { path: { account: 'nobody' } } });
if (error?.code !== 'account_unknown') throw new Error('a problem without its code');

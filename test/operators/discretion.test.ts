import { appendFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { AccountsError } from '../../src/accounts/accounts-error.ts';
import { toProblem } from '../../src/operators/to-problem.ts';
import { operatorsOf } from '../support/sidecar.ts';
import { dashboard, expectProblem, startApi } from './api.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const ownToken = 'token-of-acme-alone-0123456789-0123456789';
const own = { ...dashboard, name: 'acme', account: 'acme', hash: sha256Hex(ownToken) };

const broken = {
  'a variable': { id: 'rival', name: '${RIVAL_VAULT_TOKEN}' },
  'a file': { id: 'rival', name: 'R', encryption: { live: { enabled: true, key: { file: '/run/rival' }, iv: 'x' } } },
  'an id': { id: 'rival merger', name: 'R' },
} as const;

test.each(Object.entries(broken))(
  'a token of one account learns nothing about other accounts from an accounts file with a mistake in %s',
  async (_what, rival) => {
    const api = await startApi({ operators: operatorsOf([dashboard, own]) }, undefined, 'is deaf');
    api.folder.write({ 'accounts.yaml': { accounts: [{ id: 'acme', name: 'Acme' }, rival] } });
    const body = { environment: 'test', kind: 'public' };
    for (const [line, sent] of [
      ['GET /accounts/acme', undefined],
      ['GET /due', undefined],
      ['POST /accounts/acme/keys', body],
    ] as const) {
      const mine = await api.ask(line, { token: ownToken, ...(sent && { body: sent }) });
      const detail = expectProblem(mine, mine.status, String(mine.body['code']));
      expect([mine.status, detail]).toEqual([
        500,
        'The operators of the sidecar can see the cause by running "sidecar check".',
      ]);
      expect(JSON.stringify(mine.body)).not.toMatch(/rival|accounts\.yaml/i);
      const all = await api.ask(line, sent && { body: sent });
      expect(String(all.body['detail'])).toContain('accounts.yaml');
    }
  },
);

test('a token of one account does not learn which lines of the trail are unreadable', async () => {
  const api = await startApi({ operators: operatorsOf([dashboard, own]) });
  await api.ask('POST /accounts', { body: { id: 'acme', name: 'Acme' } });
  appendFileSync(api.folder.file('accounts.audit.jsonl'), 'not json\n');
  const mine = await api.ask('GET /audit', { token: ownToken });
  expect(mine.body).toMatchObject({ events: [{ action: 'account_added' }], unreadable: [] });
  expect((await api.ask('GET /audit')).body['unreadable']).toHaveLength(1);
});

test.each(['kms_refused', 'kms_unavailable'] as const)('a token of one account does not learn why %s', (code) => {
  const error = new AccountsError(code, 'Decrypt of the KMS at /run/kms/kms.sock failed: no such key (gRPC 5)');
  expect(toProblem(error, own)).toMatchObject({ code, message: expect.not.stringMatching(/KMS|key/) as string });
  expect(toProblem(error, dashboard).message).toContain('/run/kms/kms.sock');
});

import { describe, expect, test } from 'vitest';
import { startApi } from './api.ts';

describe('the link of a problem', () => {
  test.each([
    [undefined, 'about:blank'],
    ['https://docs.example/errors', 'https://docs.example/accounts#account_unknown'],
    ['https://docs.example/sidecar/errors.html', 'https://docs.example/sidecar/accounts.html#account_unknown'],
    ['https://docs.example/errors/', 'https://docs.example/accounts/#account_unknown'],
    ['https://docs.example/', 'https://docs.example/accounts/#account_unknown'],
  ])('with the documentation %s is %s', async (documentation, type) => {
    const { ask } = await startApi({ documentation });
    expect((await ask('GET /accounts/nobody')).body).toMatchObject({ code: 'account_unknown', type });
  });

  test('follows a reload', async () => {
    const { ask, sidecar, config } = await startApi();
    sidecar.app.apply({ ...config, documentation: 'https://docs.example/errors' });
    expect((await ask('GET /nothing')).body['type']).toBe('https://docs.example/accounts#not_found');
  });
});

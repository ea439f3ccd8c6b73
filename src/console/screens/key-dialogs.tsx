import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { api, ask, type ApiKey, type EnvironmentName, type IssuedKey } from '../api.ts';
import { texts } from '../texts.ts';
import { Ask, type DialogHandlers } from '../ui/dialog.tsx';
import { Choice, TextField } from '../ui/fields.tsx';

const say = texts.keys;

/** The header that prevents a repeated request from creating a second secret. */
export function useIdempotencyKey(): { 'Idempotency-Key': string } {
  const key = useRef(crypto.randomUUID());
  return { 'Idempotency-Key': key.current };
}

export function IssueKey({ account, ...handlers }: DialogHandlers<IssuedKey> & { account: string }) {
  const environment = useSignal<EnvironmentName>('test');
  const kind = useSignal<ApiKey['kind']>('secret');
  const expiry = useSignal<keyof typeof say.expiries>('');
  const header = useIdempotencyKey();
  return (
    <Ask
      title={say.issueTitle}
      submit={say.issue}
      onSubmit={() =>
        ask(
          api.POST('/api/v1/accounts/{account}/keys', {
            params: { path: { account }, header },
            body: {
              environment: environment.value,
              kind: kind.value,
              ...(expiry.value !== '' && { expires_in: expiry.value }),
            },
          }),
        )
      }
      notice={say.issued}
      {...handlers}
    >
      <Choice label={texts.columns.environment} of={environment} options={texts.environments} />
      <Choice label={say.kind} hint={say.kindHint} of={kind} options={texts.kinds} />
      <Choice label={say.expiry} of={expiry} options={say.expiries} />
    </Ask>
  );
}

export function RotateKey({ apiKey, ...handlers }: DialogHandlers<IssuedKey> & { apiKey: ApiKey }) {
  const overlap = useSignal<keyof typeof say.overlaps>('7d');
  const header = useIdempotencyKey();
  return (
    <Ask
      title={say.rotateTitle(apiKey.id)}
      submit={say.rotate}
      onSubmit={() =>
        ask(
          api.POST('/api/v1/accounts/{account}/keys/{key}/rotate', {
            params: { path: { account: apiKey.account, key: apiKey.id }, header },
            body: { overlap: overlap.value },
          }),
        )
      }
      notice={say.rotated(apiKey.id)}
      {...handlers}
    >
      <p>{say.rotateText}</p>
      <Choice label={say.overlap} of={overlap} options={say.overlaps} />
    </Ask>
  );
}

/** Requires typing the key's id, because a revocation cannot be undone. */
export function RevokeKey({ apiKey, ...handlers }: DialogHandlers<ApiKey> & { apiKey: ApiKey }) {
  const typed = useSignal('');
  const params = { path: { account: apiKey.account, key: apiKey.id } };
  return (
    <Ask
      title={say.revokeTitle(apiKey.id)}
      submit={say.revoke}
      danger
      ready={typed.value === apiKey.id}
      onSubmit={() => ask(api.POST('/api/v1/accounts/{account}/keys/{key}/revoke', { params }))}
      notice={say.revoked(apiKey.id)}
      {...handlers}
    >
      <p>{say.revokeText}</p>
      <TextField label={say.revokeType(apiKey.id)} of={typed} />
    </Ask>
  );
}

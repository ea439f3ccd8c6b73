import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { api, ask, type ApiKey, type EnvironmentName, type IssuedKey, type UsedKey } from '../api.ts';
import type { Cell } from '../route.ts';
import { texts } from '../texts.ts';
import { Ask, type DialogHandlers } from '../ui/dialog.tsx';
import { Choice, TextField } from '../ui/fields.tsx';
import { Guard, isConfirmed } from '../ui/guard.tsx';

const say = texts.keys;

/** The header that prevents a repeated request from creating a second secret. */
export function useIdempotencyKey(): { 'Idempotency-Key': string } {
  const key = useRef(crypto.randomUUID());
  return { 'Idempotency-Key': key.current };
}

export function IssueKey({ account, ...handlers }: DialogHandlers<IssuedKey> & { account: string }) {
  const environment = useSignal<EnvironmentName>('test');
  const kind = useSignal<ApiKey['kind']>('secret');
  const name = useSignal('');
  const chosen = useSignal<keyof typeof say.expiries | undefined>(undefined);
  // By default, live keys expire, because nobody rotates a key that never expires.
  const expiry: Cell<keyof typeof say.expiries> = {
    get value() {
      return chosen.value ?? (environment.value === 'live' ? '180d' : '');
    },
    set value(value) {
      chosen.value = value;
    },
  };
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
              ...(name.value !== '' && { name: name.value }),
            },
          }),
        )
      }
      notice={say.issued}
      {...handlers}
    >
      <TextField label={say.name} hint={say.nameHint} name="name" of={name} />
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
      danger={overlap.value === '0s'}
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

/** Revokes a key. In live, the operator must type its id, because a revocation cannot be undone. */
export function RevokeKey({ apiKey, ...handlers }: DialogHandlers<unknown> & { apiKey: UsedKey }) {
  const typed = useSignal('');
  const guard = { use: apiKey.use, id: apiKey.environment === 'live' ? apiKey.id : undefined, typed };
  return (
    <Ask
      title={say.revokeTitle(apiKey.id)}
      submit={say.revoke}
      danger
      ready={isConfirmed(guard)}
      onSubmit={() => revoke(apiKey)}
      notice={say.revoked(apiKey.id)}
      {...handlers}
    >
      <p>{say.revokeText}</p>
      <Guard {...guard} />
    </Ask>
  );
}

export function revoke({ account, id }: ApiKey) {
  const params = { path: { account, key: id } };
  return ask(api.POST('/api/v1/accounts/{account}/keys/{key}/revoke', { params }));
}

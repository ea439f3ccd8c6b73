import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { api, ask, type ApiKey, type EnvironmentName, type IssuedKey } from '../api.ts';
import { tellChanged } from '../notices.ts';
import { texts } from '../texts.ts';
import { Ask } from '../ui/dialog.tsx';
import { Choice, TextField } from '../ui/fields.tsx';

const say = texts.keys;

/** The header that prevents a repeated request from creating a second secret. */
export function useIdempotencyKey(): { 'Idempotency-Key': string } {
  const key = useRef(crypto.randomUUID());
  return { 'Idempotency-Key': key.current };
}

export function IssueKey(props: { account: string; onClose: () => void; onDone: (issued: IssuedKey) => void }) {
  const environment = useSignal<EnvironmentName>('test');
  const kind = useSignal<ApiKey['kind']>('secret');
  const expiry = useSignal<keyof typeof say.expiries>('');
  const header = useIdempotencyKey();
  return (
    <Ask
      title={say.issueTitle}
      submit={say.issue}
      onClose={props.onClose}
      onSubmit={async () => {
        const issued = await ask(
          api.POST('/api/v1/accounts/{account}/keys', {
            params: { path: { account: props.account }, header },
            body: {
              environment: environment.value,
              kind: kind.value,
              ...(expiry.value !== '' && { expires_in: expiry.value }),
            },
          }),
        );
        tellChanged(say.issued, issued);
        props.onDone(issued);
      }}
    >
      <Choice label={say.environment} of={environment} options={texts.environments} />
      <Choice label={say.kind} hint={say.kindHint} of={kind} options={texts.kinds} />
      <Choice label={say.expiry} of={expiry} options={say.expiries} />
    </Ask>
  );
}

interface KeyDialogProps {
  readonly apiKey: ApiKey;
  readonly onClose: () => void;
}

export function RotateKey({ apiKey, onClose, onDone }: KeyDialogProps & { onDone: (issued: IssuedKey) => void }) {
  const overlap = useSignal<keyof typeof say.overlaps>('7d');
  const header = useIdempotencyKey();
  return (
    <Ask
      title={say.rotateTitle(apiKey.id)}
      submit={say.rotate}
      onClose={onClose}
      onSubmit={async () => {
        const issued = await ask(
          api.POST('/api/v1/accounts/{account}/keys/{key}/rotate', {
            params: { path: { account: apiKey.account, key: apiKey.id }, header },
            body: { overlap: overlap.value },
          }),
        );
        tellChanged(say.rotated(apiKey.id), issued);
        onDone(issued);
      }}
    >
      <p>{say.rotateText}</p>
      <Choice label={say.overlap} of={overlap} options={say.overlaps} />
    </Ask>
  );
}

/** Requires typing the key's id, because a revocation cannot be undone. */
export function RevokeKey({ apiKey, onClose, onDone }: KeyDialogProps & { onDone: () => void }) {
  const typed = useSignal('');
  return (
    <Ask
      title={say.revokeTitle(apiKey.id)}
      submit={say.revoke}
      danger
      ready={typed.value === apiKey.id}
      onClose={onClose}
      onSubmit={async () => {
        const params = { path: { account: apiKey.account, key: apiKey.id } };
        const revoked = await ask(api.POST('/api/v1/accounts/{account}/keys/{key}/revoke', { params }));
        tellChanged(say.revoked(apiKey.id), revoked);
        onDone();
      }}
    >
      <p>{say.revokeText}</p>
      <TextField label={say.revokeType(apiKey.id)} of={typed} />
    </Ask>
  );
}

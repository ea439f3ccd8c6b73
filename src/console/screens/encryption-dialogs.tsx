import { useSignal } from '@preact/signals';
import { api, ask, type EnabledEncryption, type Encryption } from '../api.ts';
import { session } from '../session.ts';
import { texts } from '../texts.ts';
import { Ask, type DialogHandlers } from '../ui/dialog.tsx';
import { Choice } from '../ui/fields.tsx';
import { Guard, isConfirmed, type TrafficOfUse } from '../ui/guard.tsx';
import { useIdempotencyKey } from './key-dialogs.tsx';

const say = texts.encryption;
type GraceLength = keyof typeof say.graces;

type EncryptionDialogProps<Changed = Encryption> = DialogHandlers<Changed> & { readonly encryption: Encryption };

/** Whether a grace period for plaintext is preset. It is useful in live, where only an admin may choose it. */
function mayGrace(environment: Encryption['environment']): boolean {
  return environment === 'live' && session.value?.role === 'admin';
}

/** Enables encryption or, if it is already enabled, replaces the key and the IV. */
export function EnableEncryption({ encryption, ...handlers }: EncryptionDialogProps<EnabledEncryption>) {
  const { account, environment, enabled: replace, encoding: before, previous } = encryption;
  const encoding = useSignal(before);
  const grace = useSignal<GraceLength>(previous === null && (replace || mayGrace(environment)) ? '24h' : '');
  const header = useIdempotencyKey();
  const name = texts.environments[environment];
  return (
    <Ask
      title={replace ? say.replaceTitle(name) : say.enableTitle(name)}
      submit={replace ? say.replace : say.enable}
      onSubmit={() =>
        ask(
          api.POST('/api/v1/accounts/{account}/encryption/{environment}/enable', {
            params: { path: { account, environment }, header },
            body: { encoding: encoding.value, replace, ...(grace.value !== '' && { grace: grace.value }) },
          }),
        )
      }
      notice={replace ? say.replaced(name) : say.enabled(name)}
      {...handlers}
    >
      <p>{replace ? say.replaceText : say.enableText}</p>
      {!replace && <p class="hint">{say.enableNew}</p>}
      {previous === null ? (
        <Choice label={replace ? say.graceField.replace : say.graceField.enable} of={grace} options={say.graces} />
      ) : (
        <p class="box warn">{replace ? say.graceOpen.replace : say.graceOpen.enable}</p>
      )}
      {environment === 'live' && previous === null && grace.value === '' && (
        <p class="box bad">{replace ? say.replaceAtOnce : say.enableAtOnce}</p>
      )}
      <Choice label={say.encoding} of={encoding} options={texts.encodings} />
    </Ask>
  );
}

/** Disables encryption, at once or with a grace period for envelopes. */
export function DisableEncryption({ encryption, use, ...handlers }: EncryptionDialogProps & { use: TrafficOfUse }) {
  const { account, environment, previous } = encryption;
  const isLive = environment === 'live';
  const grace = useSignal<GraceLength>(isLive && previous === null ? '24h' : '');
  const guard = { use, id: isLive ? account : undefined, typed: useSignal('') };
  const name = texts.environments[environment];
  return (
    <Ask
      title={say.disableTitle(name)}
      submit={say.disable}
      danger
      ready={isConfirmed(guard)}
      onSubmit={() =>
        ask(
          api.POST('/api/v1/accounts/{account}/encryption/{environment}/disable', {
            params: { path: { account, environment } },
            body: grace.value === '' ? {} : { grace: grace.value },
          }),
        )
      }
      notice={say.disabled(name)}
      {...handlers}
    >
      <p>{say.disableText}</p>
      {previous === null ? (
        <Choice
          label={say.graceField.disable}
          hint={grace.value === '' ? undefined : say.disableLater}
          of={grace}
          options={say.graces}
        />
      ) : (
        <p class="box warn">{say.disableInGrace}</p>
      )}
      {previous === null && grace.value === '' && <p class="box bad">{say.disableAtOnce}</p>}
      <Guard {...guard} />
    </Ask>
  );
}

const hours = { '1h': 1, '24h': 24, '7d': 168, '30d': 720 };

/** Changes the end of a grace period. */
export function ChangeGrace({ encryption: { account, environment }, ...handlers }: EncryptionDialogProps) {
  const length = useSignal<keyof typeof hours>('24h');
  return (
    <Ask
      title={say.extendTitle}
      submit={say.extend}
      onSubmit={() => {
        const until = new Date(Date.now() + hours[length.value] * 3_600_000).toISOString();
        const params = { path: { account, environment } };
        return ask(api.POST('/api/v1/accounts/{account}/encryption/{environment}/grace', { params, body: { until } }));
      }}
      notice={say.extended}
      {...handlers}
    >
      <Choice label={say.extendFor} of={length} options={say.ends} />
    </Ask>
  );
}

/** Ends a grace period now. */
export function EndGrace(props: EncryptionDialogProps & { accepts: keyof typeof say.endText; isUsed: boolean }) {
  const { encryption, accepts, isUsed, ...handlers } = props;
  const params = { path: { account: encryption.account, environment: encryption.environment } };
  return (
    <Ask
      title={say.endTitle}
      submit={say.end}
      danger
      onSubmit={() => ask(api.POST('/api/v1/accounts/{account}/encryption/{environment}/grace/end', { params }))}
      notice={say.ended}
      {...handlers}
    >
      <p>{say.endText[accepts]}</p>
      {isUsed && <p class="box warn">{say.endUsed}</p>}
    </Ask>
  );
}

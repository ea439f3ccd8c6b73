import { useSignal } from '@preact/signals';
import { api, ask, type EnabledEncryption, type Encryption } from '../api.ts';
import { tellChanged } from '../notices.ts';
import { texts } from '../texts.ts';
import { Ask } from '../ui/dialog.tsx';
import { Choice } from '../ui/fields.tsx';
import { useIdempotencyKey } from './key-dialogs.tsx';

const say = texts.encryption;
type GraceLength = keyof typeof say.graces;

/** Switches encryption on, or replaces key and IV if it is on. */
export function EnableEncryption(props: {
  encryption: Encryption;
  onClose: () => void;
  onDone: (enabled: EnabledEncryption) => void;
}) {
  const { account, environment, enabled: replace, encoding: before, previous } = props.encryption;
  const encoding = useSignal(before);
  const grace = useSignal<GraceLength>(replace && previous === null ? '24h' : '');
  const header = useIdempotencyKey();
  const name = texts.environments[environment];
  return (
    <Ask
      title={replace ? say.replaceTitle(name) : say.enableTitle(name)}
      submit={replace ? say.replace : say.enable}
      onClose={props.onClose}
      onSubmit={async () => {
        const enabled = await ask(
          api.POST('/api/v1/accounts/{account}/encryption/{environment}/enable', {
            params: { path: { account, environment }, header },
            body: { encoding: encoding.value, replace, ...(grace.value !== '' && { grace: grace.value }) },
          }),
        );
        tellChanged(replace ? say.replaced(name) : say.enabled(name), enabled);
        props.onDone(enabled);
      }}
    >
      <p>{replace ? say.replaceText : say.enableText}</p>
      {!replace && <p class="hint">{say.enableNew}</p>}
      {previous === null ? (
        <Choice label={replace ? say.graceField.replace : say.graceField.enable} of={grace} options={say.graces} />
      ) : (
        <p class="box warn">{say.graceOpen}</p>
      )}
      <Choice label={say.encoding} of={encoding} options={texts.encodings} />
    </Ask>
  );
}

/** Switches encryption off, at once or after a grace for envelopes. */
export function DisableEncryption(props: { encryption: Encryption; onClose: () => void; onDone: () => void }) {
  const { account, environment, previous } = props.encryption;
  const grace = useSignal<GraceLength>('');
  const name = texts.environments[environment];
  return (
    <Ask
      title={say.disableTitle(name)}
      submit={say.disable}
      danger
      onClose={props.onClose}
      onSubmit={async () => {
        const disabled = await ask(
          api.POST('/api/v1/accounts/{account}/encryption/{environment}/disable', {
            params: { path: { account, environment } },
            body: grace.value === '' ? {} : { grace: grace.value },
          }),
        );
        tellChanged(say.disabled(name), disabled);
        props.onDone();
      }}
    >
      <p>{say.disableText}</p>
      {previous === null ? (
        <Choice
          label={say.graceField.disable}
          hint={grace.value === '' ? say.disableAtOnce : say.disableLater}
          of={grace}
          options={say.graces}
        />
      ) : (
        <p class="box warn">{say.disableInGrace}</p>
      )}
    </Ask>
  );
}

import { useSignal, type Signal } from '@preact/signals';
import type { Account, ApiKey, IssuedKey } from '../api.ts';
import { mayChange } from '../session.ts';
import { set } from '../set.ts';
import { texts } from '../texts.ts';
import { Badge } from '../ui/badge.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Secret } from '../ui/copy.tsx';
import { Table } from '../ui/table.tsx';
import { When } from '../ui/when.tsx';
import { inFull } from '../dates.ts';
import { IssueKey, RevokeKey, RotateKey } from './key-dialogs.tsx';
import { Warnings } from './rotation.tsx';

const say = texts.keys;

type Asking = { readonly what: 'issue' } | { readonly what: 'rotate' | 'revoke'; readonly key: ApiKey };

/** The API keys of an account. */
export function Keys({ account, reload }: { account: Account; reload: () => void }) {
  const asking = useSignal<Asking | undefined>(undefined);
  const issued = useSignal<IssuedKey | undefined>(undefined);
  const showEnded = useSignal(false);
  const valid = account.keys.filter(({ state }) => state === 'valid');
  const ended = account.keys.length - valid.length;
  const onClose = set(asking, undefined);
  const made = (key: IssuedKey): void => {
    issued.value = key;
    reload();
  };
  const { value } = asking;
  return (
    <section aria-label={texts.pages.keys}>
      <div class="row between">
        <label class="row">
          <input
            type="checkbox"
            checked={showEnded.value}
            disabled={ended === 0}
            onChange={(event) => {
              showEnded.value = event.currentTarget.checked;
            }}
          />
          {say.showEnded} ({ended})
        </label>
        {mayChange() && (
          <button class="primary" onClick={set(asking, { what: 'issue' })}>
            {say.issue}
          </button>
        )}
      </div>
      <KeyTable
        keys={showEnded.value ? account.keys : valid}
        empty={account.keys.length === 0 ? say.none : say.noneValid}
        asking={asking}
      />
      {value?.what === 'issue' && <IssueKey account={account.id} onClose={onClose} onDone={made} />}
      {value?.what === 'rotate' && <RotateKey apiKey={value.key} onClose={onClose} onDone={made} />}
      {value?.what === 'revoke' && <RevokeKey apiKey={value.key} onClose={onClose} onDone={reload} />}
      {issued.value !== undefined && <IssuedOnce issued={issued.value} onClose={set(issued, undefined)} />}
    </section>
  );
}

function KeyTable(props: { keys: readonly ApiKey[]; empty: string; asking: Signal<Asking | undefined> }) {
  return (
    <Table
      label={texts.pages.keys}
      rows={props.keys}
      keyOf={({ id }) => id}
      columns={[
        [say.id, (key) => <KeyName apiKey={key} />],
        [texts.columns.environment, ({ environment }) => texts.environments[environment]],
        [say.kind, ({ kind }) => texts.kinds[kind]],
        [texts.columns.state, (key) => <KeyState apiKey={key} />],
        [say.age, ({ created_at: at }) => <When date={at} />],
        [say.lastUsed, ({ last_used_at: at }) => <When date={at} />],
        [say.expires, (key) => <When date={key.revoked_at ?? key.expires_at} />],
        ...(mayChange()
          ? [[say.actions, (key: ApiKey) => <Actions apiKey={key} asking={props.asking} />, 'actions'] as const]
          : []),
      ]}
      empty={props.empty}
    />
  );
}

/** Its id, and what is known of its name and its characters. */
function KeyName({ apiKey: { id, name, hint } }: { apiKey: ApiKey }) {
  const known = [name, hint].filter((text) => text !== null);
  return (
    <>
      <code>{id}</code>
      {known.length > 0 && <p class="hint">{known.join(' · ')}</p>}
    </>
  );
}

function KeyState({ apiKey }: { apiKey: ApiKey }) {
  return (
    <span class="row tight">
      <Badge tone={apiKey.state === 'valid' ? 'good' : 'quiet'}>{texts.states[apiKey.state]}</Badge>
      <Warnings apiKey={apiKey} />
    </span>
  );
}

function Actions({ apiKey, asking }: { apiKey: ApiKey; asking: Signal<Asking | undefined> }) {
  if (apiKey.state !== 'valid') return null;
  return (['rotate', 'revoke'] as const).map((what) => (
    <button
      key={what}
      class={what === 'rotate' ? 'small' : 'small danger-quiet'}
      aria-label={`${say[what]} ${apiKey.id}`}
      onClick={set(asking, { what, key: apiKey })}
    >
      {say[what]}
    </button>
  ));
}

/** Shows the new key once. */
function IssuedOnce({ issued, onClose }: { issued: IssuedKey; onClose: () => void }) {
  return (
    <Dialog title={say.secretTitle}>
      {issued.key === undefined ? (
        <p class="box warn">{say.secretShown}</p>
      ) : (
        <>
          <p class="box warn">{say.secretText}</p>
          <Secret label={say.secretLabel} value={issued.key} hint={issued.id} />
        </>
      )}
      {issued.replaces !== undefined && (
        <p class="hint">{say.replaces(issued.replaces.id, inFull(issued.replaces.expires_at))}</p>
      )}
      <div class="row end">
        <button class="primary" onClick={onClose}>
          {texts.done}
        </button>
      </div>
    </Dialog>
  );
}

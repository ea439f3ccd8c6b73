import { useSignal, type Signal } from '@preact/signals';
import type { Account, ApiKey, IssuedKey } from '../api.ts';
import { mayChange } from '../session.ts';
import { set } from '../set.ts';
import { texts } from '../texts.ts';
import { Badge } from '../ui/badge.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Secret } from '../ui/copy.tsx';
import { Table } from '../ui/states.tsx';
import { When } from '../ui/when.tsx';
import { inFull } from '../dates.ts';
import { IssueKey, RevokeKey, RotateKey } from './key-dialogs.tsx';
import { Warnings } from './rotation.tsx';

const say = texts.keys;

type Asking = { readonly what: 'issue' } | { readonly what: 'rotate' | 'revoke'; readonly key: ApiKey };

/** The API keys of an account. */
export function Keys({ account, reload }: { account: Account; reload: () => Promise<void> }) {
  const asking = useSignal<Asking | undefined>(undefined);
  const issued = useSignal<IssuedKey | undefined>(undefined);
  const showEnded = useSignal(false);
  const valid = account.keys.filter(({ state }) => state === 'valid');
  const ended = account.keys.length - valid.length;
  const onClose = set(asking, undefined);
  const changed = (): void => void reload();
  const made = (key: IssuedKey): void => {
    issued.value = key;
    changed();
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
      {value?.what === 'revoke' && <RevokeKey apiKey={value.key} onClose={onClose} onDone={changed} />}
      {issued.value !== undefined && <IssuedOnce issued={issued.value} onClose={set(issued, undefined)} />}
    </section>
  );
}

function KeyTable(props: { keys: readonly ApiKey[]; empty: string; asking: Signal<Asking | undefined> }) {
  const head = [say.id, say.environment, say.kind, say.state, say.age, say.lastUsed, say.expires];
  return (
    <Table
      label={texts.pages.keys}
      head={mayChange() ? [...head, say.actions] : head}
      rows={props.keys}
      empty={props.empty}
    >
      {(key) => (
        <tr key={key.id}>
          <th scope="row">
            <code>{key.id}</code>
          </th>
          <td>{texts.environments[key.environment]}</td>
          <td>{texts.kinds[key.kind]}</td>
          <td>
            <span class="row tight">
              <Badge tone={key.state === 'valid' ? 'good' : 'quiet'}>{texts.states[key.state]}</Badge>
              <Warnings apiKey={key} />
            </span>
          </td>
          <td>
            <When date={key.created_at} />
          </td>
          <td>
            {'last_used_at' in key ? <When date={key.last_used_at} /> : <span class="faint">{texts.notRecorded}</span>}
          </td>
          <td>
            <When date={key.revoked_at ?? key.expires_at} />
          </td>
          {mayChange() && (
            <td class="actions">
              {key.state === 'valid' &&
                (['rotate', 'revoke'] as const).map((what) => (
                  <button
                    key={what}
                    class={what === 'rotate' ? 'small' : 'small danger-quiet'}
                    aria-label={`${say[what]} ${key.id}`}
                    onClick={set(props.asking, { what, key })}
                  >
                    {say[what]}
                  </button>
                ))}
            </td>
          )}
        </tr>
      )}
    </Table>
  );
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

import { useSignal } from '@preact/signals';
import type { ApiKey, IssuedKey } from '../api.ts';
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
import type { AccountTab } from './account-tab.ts';
import { Warnings } from './rotation.tsx';

const say = texts.keys;

type Asking = { readonly what: 'issue' } | { readonly what: 'rotate' | 'revoke'; readonly key: ApiKey };

/** The API keys of an account. */
export function Keys({ account, loaded }: AccountTab) {
  const asking = useSignal<Asking | undefined>(undefined);
  const issued = useSignal<IssuedKey | undefined>(undefined);
  const showEnded = useSignal(false);
  const ended = account.keys.filter(({ state }) => state !== 'valid');
  const shown = showEnded.value ? account.keys : account.keys.filter(({ state }) => state === 'valid');
  const close = set(asking, undefined);
  const made = (key: IssuedKey): void => {
    close();
    issued.value = key;
    void loaded.reload();
  };
  const { value } = asking;
  return (
    <section aria-label={texts.pages.keys}>
      <div class="row between">
        <label class="check">
          <input
            type="checkbox"
            checked={showEnded.value}
            disabled={ended.length === 0}
            onChange={(event) => {
              showEnded.value = event.currentTarget.checked;
            }}
          />
          {say.showEnded} ({ended.length})
        </label>
        {mayChange() && (
          <button class="primary" onClick={set(asking, { what: 'issue' })}>
            {say.issue}
          </button>
        )}
      </div>
      {shown.length === 0 ? (
        <p class="empty">{account.keys.length === 0 ? say.none : say.noneValid}</p>
      ) : (
        <KeyTable
          keys={shown}
          onAsk={(asked) => {
            asking.value = asked;
          }}
        />
      )}
      {value?.what === 'issue' && <IssueKey account={account.id} onClose={close} onDone={made} />}
      {value?.what === 'rotate' && <RotateKey apiKey={value.key} onClose={close} onDone={made} />}
      {value?.what === 'revoke' && (
        <RevokeKey
          apiKey={value.key}
          onClose={close}
          onDone={() => {
            close();
            void loaded.reload();
          }}
        />
      )}
      {issued.value !== undefined && <IssuedOnce issued={issued.value} onClose={set(issued, undefined)} />}
    </section>
  );
}

function KeyTable({ keys, onAsk }: { keys: readonly ApiKey[]; onAsk: (asked: Asking) => void }) {
  const head = [say.id, say.environment, say.kind, say.state, say.age, say.lastUsed, say.expires];
  return (
    <Table label={texts.pages.keys} head={mayChange() ? [...head, say.actions] : head}>
      {keys.map((key) => (
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
              {key.state === 'valid' && (
                <>
                  <button
                    class="small"
                    aria-label={`${say.rotate} ${key.id}`}
                    onClick={() => onAsk({ what: 'rotate', key })}
                  >
                    {say.rotate}
                  </button>
                  <button
                    class="small danger-quiet"
                    aria-label={`${say.revoke} ${key.id}`}
                    onClick={() => onAsk({ what: 'revoke', key })}
                  >
                    {say.revoke}
                  </button>
                </>
              )}
            </td>
          )}
        </tr>
      ))}
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

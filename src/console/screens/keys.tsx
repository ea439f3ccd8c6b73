import { useSignal } from '@preact/signals';
import type { Account, EnvironmentName, IssuedKey, UsedKey } from '../api.ts';
import { inFull } from '../dates.ts';
import { useAttempt } from '../load.ts';
import { announceChange } from '../notices.ts';
import { inAddress, set } from '../route.ts';
import { mayChange } from '../session.ts';
import { texts } from '../texts.ts';
import { Badge, Id, When } from '../ui/inline.tsx';
import { Chips, EnvironmentChips } from '../ui/chips.tsx';
import { Secret } from '../ui/copy.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { copyItem, Menu, type MenuItem } from '../ui/menu.tsx';
import { Problem } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';
import { lastUse, useHeading, UseLine } from '../ui/use-line.tsx';
import { FoundKey } from './found-key.tsx';
import { IssueKey, revoke, RevokeKey, RotateKey } from './key-dialogs.tsx';
import { Warnings } from './rotation.tsx';

const say = texts.keys;

type Asking = { readonly what: 'issue' } | { readonly what: 'rotate' | 'revoke'; readonly key: UsedKey };

const states = ['valid', 'expired', 'revoked'] as const;

/** The API keys of an account. */
export function Keys({ account, reload }: { account: Account; reload: () => void }) {
  const asking = useSignal<Asking | undefined>(undefined);
  const issued = useSignal<IssuedKey | undefined>(undefined);
  const state = inAddress<UsedKey['state']>('state');
  const environment = inAddress<EnvironmentName>('environment');
  const found = inAddress('key').value;
  const { keys } = account;
  const preset = keys.find(({ id }) => id === found)?.state ?? 'valid';
  const chosen = state.value === '' ? preset : state.value;
  const inEnvironment = keys.filter((key) => environment.value === '' || key.environment === environment.value);
  const shown = inEnvironment.filter((key) => key.state === chosen);
  const count = (state: UsedKey['state']) => inEnvironment.filter((key) => key.state === state).length;
  const onClose = set(asking, undefined);
  const made = (key: IssuedKey): void => {
    issued.value = key;
    reload();
  };
  const [refused, attempt] = useAttempt();
  const revokeNow = async (key: UsedKey): Promise<void> => {
    const revoked = await revoke(key);
    reload();
    announceChange(say.revoked(key.id), revoked);
  };
  const listChanges = (key: UsedKey): readonly MenuItem[] => {
    if (key.state !== 'valid' || !mayChange()) return [];
    // A test key without a recorded use is revoked without confirmation, because nobody depends on it.
    const isUnused = key.environment === 'test' && lastUse([key], key.use) === null;
    const askToRevoke = set(asking, { what: 'revoke', key } as const);
    return [
      [say.rotate, set(asking, { what: 'rotate', key } as const)],
      [say.revoke, isUnused ? () => attempt(() => revokeNow(key)) : askToRevoke, 'danger'],
    ];
  };
  const { value } = asking;
  return (
    <section aria-label={texts.pages.keys}>
      {found !== '' && <FoundKey key={found} account={account} id={found} />}
      <div class="row between">
        <div class="row">
          <Chips
            label={texts.columns.state}
            of={state}
            preset={preset}
            options={states.map((each) => [each, texts.states[each], count(each)])}
          />
          <EnvironmentChips of={environment} />
        </div>
        {mayChange() && (
          <button class="primary" onClick={set(asking, { what: 'issue' })}>
            {say.issue}
          </button>
        )}
      </div>
      <Problem refused={refused.value} />
      <Table
        label={texts.pages.keys}
        rows={shown}
        keyOf={({ id }) => id}
        isMarked={({ id }) => id === found}
        columns={[
          [say.name, (key) => <KeyName apiKey={key} />, 'name'],
          [say.key, (key) => <MaskedKey apiKey={key} />],
          [texts.columns.environment, ({ environment }) => texts.environments[environment]],
          [texts.columns.state, (key) => <KeyState apiKey={key} />],
          [useHeading(shown), ({ use }) => <UseLine use={use} />, 'bare'],
          [say.lastUsed, (key) => <When date={lastUse([key], key.use)} />],
          [
            chosen === 'valid' ? say.expires : texts.states[chosen],
            (key) => <When date={key.revoked_at ?? key.expires_at} />,
          ],
          [
            say.actions,
            (key) => <Menu of={key.name ?? key.id} items={[copyItem(key.id), ...listChanges(key)]} />,
            'actions',
          ],
        ]}
        empty={keys.length === 0 ? say.none : say.noneSo(texts.states[chosen])}
      />
      {value?.what === 'issue' && <IssueKey account={account.id} onClose={onClose} onDone={made} />}
      {value?.what === 'rotate' && <RotateKey apiKey={value.key} onClose={onClose} onDone={made} />}
      {value?.what === 'revoke' && <RevokeKey apiKey={value.key} onClose={onClose} onDone={reload} />}
      {issued.value !== undefined && <IssuedOnce issued={issued.value} onClose={set(issued, undefined)} />}
    </section>
  );
}

/** The name that the owner gave the key, and the id of the key. */
function KeyName({ apiKey: { id, name } }: { apiKey: UsedKey }) {
  if (name === null) return <Id id={id} />;
  return (
    <>
      {name}
      <p class="hint">
        <Id id={id} />
      </p>
    </>
  );
}

/** The key with its middle left out, and its kind. */
function MaskedKey({ apiKey: { hint, kind, environment } }: { apiKey: UsedKey }) {
  return (
    <span class="row tight">
      <code>{hint ?? `${kind === 'secret' ? 'sk' : 'pk'}_${environment}_…`}</code>
      <span class="hint">{texts.kinds[kind]}</span>
    </span>
  );
}

function KeyState({ apiKey }: { apiKey: UsedKey }) {
  const { replaced_at: replacedAt } = apiKey;
  const isReplaced = replacedAt !== null && apiKey.state === 'valid';
  const isUsed = isReplaced && (lastUse([apiKey], apiKey.use) ?? '') > replacedAt;
  return (
    <span class="row tight">
      {isReplaced ? (
        <Badge tone={isUsed ? 'warn' : 'quiet'}>{isUsed ? say.stillUsed : say.replaced}</Badge>
      ) : (
        <Badge tone={apiKey.state === 'valid' ? 'good' : 'quiet'}>{texts.states[apiKey.state]}</Badge>
      )}
      <Warnings of={apiKey} />
    </span>
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

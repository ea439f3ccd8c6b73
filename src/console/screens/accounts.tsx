import { useSignal } from '@preact/signals';
import { api, ask, type Account, type EnvironmentName } from '../api.ts';
import { useLoad } from '../load.ts';
import { tellChanged } from '../notices.ts';
import { goTo, linkTo } from '../route.ts';
import { mayChange } from '../session.ts';
import { texts } from '../texts.ts';
import { Badge } from '../ui/badge.tsx';
import { Ask } from '../ui/dialog.tsx';
import { Field } from '../ui/fields.tsx';
import { Show, Table } from '../ui/states.tsx';

const say = texts.accounts;
const pageSize = '50';

/** All accounts, page by page. */
export function Accounts() {
  const after = useSignal<string | undefined>(undefined);
  const adding = useSignal(false);
  const page = useLoad(
    () =>
      ask(
        api.GET('/api/v1/accounts', {
          params: { query: { limit: pageSize as never, ...(after.value !== undefined && { after: after.value }) } },
        }),
      ),
    after.value ?? '',
  );
  return (
    <>
      <div class="row between">
        <h1>{texts.pages.accounts}</h1>
        {mayChange() && (
          <button
            class="primary"
            onClick={() => {
              adding.value = true;
            }}
          >
            {say.add}
          </button>
        )}
      </div>
      <Show loaded={page}>
        {({ accounts, next }) => (
          <>
            {accounts.length === 0 ? <p class="empty">{say.empty}</p> : <List accounts={accounts} />}
            <div class="row end">
              {after.value !== undefined && (
                <button
                  onClick={() => {
                    after.value = undefined;
                  }}
                >
                  {texts.first}
                </button>
              )}
              {next !== null && (
                <button
                  onClick={() => {
                    after.value = next;
                  }}
                >
                  {texts.more}
                </button>
              )}
            </div>
          </>
        )}
      </Show>
      {adding.value && (
        <AddAccount
          onClose={() => {
            adding.value = false;
          }}
        />
      )}
    </>
  );
}

function List({ accounts }: { accounts: readonly Account[] }) {
  return (
    <Table label={texts.pages.accounts} head={[say.id, say.name, say.state, say.keys, say.encryption]}>
      {accounts.map((account) => (
        <tr key={account.id}>
          <th scope="row">
            <a href={linkTo('accounts', account.id)}>{account.id}</a>
          </th>
          <td>{account.name}</td>
          <td>
            <Badge tone={account.active ? 'good' : 'quiet'}>{account.active ? texts.active : texts.inactive}</Badge>
          </td>
          <td class="number">{account.keys.filter(({ state }) => state === 'valid').length}</td>
          <td>
            <EncryptionBadges account={account} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

function EncryptionBadges({ account }: { account: Account }) {
  const names = (['test', 'live'] as const satisfies EnvironmentName[]).filter(
    (name) => account.encryption[name].enabled || account.encryption[name].previous !== null,
  );
  if (names.length === 0) return <span class="faint">{say.off}</span>;
  return (
    <span class="row">
      {names.map((name) => {
        const { enabled, previous } = account.encryption[name];
        return (
          <Badge key={name} tone={enabled ? 'good' : 'quiet'}>
            {texts.environments[name]}
            {previous !== null && `, ${say.grace.toLowerCase()}`}
          </Badge>
        );
      })}
    </span>
  );
}

function AddAccount({ onClose }: { onClose: () => void }) {
  const id = useSignal('');
  const name = useSignal('');
  return (
    <Ask
      title={say.addTitle}
      submit={say.add}
      ready={id.value !== '' && name.value !== ''}
      onClose={onClose}
      onSubmit={async () => {
        const added = await ask(api.POST('/api/v1/accounts', { body: { id: id.value, name: name.value } }));
        onClose();
        goTo('accounts', added.id);
        tellChanged(say.added(added.id), added);
      }}
    >
      <Field label={say.idField} hint={say.idHint}>
        {(control) => (
          <input
            {...control}
            value={id.value}
            spellcheck={false}
            onInput={(event) => {
              id.value = event.currentTarget.value;
            }}
          />
        )}
      </Field>
      <Field label={say.nameField} hint={say.nameHint}>
        {(control) => (
          <input
            {...control}
            value={name.value}
            onInput={(event) => {
              name.value = event.currentTarget.value;
            }}
          />
        )}
      </Field>
    </Ask>
  );
}

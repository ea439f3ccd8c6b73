import { useSignal, type Signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { api, ask, Refused, type Account, type AccountFilter, type EnvironmentName } from '../api.ts';
import { sha256 } from '../envelope.ts';
import { notice } from '../notices.ts';
import { goTo, linkTo } from '../route.ts';
import { mayChange } from '../session.ts';
import { set, setText } from '../set.ts';
import { texts } from '../texts.ts';
import { Badge } from '../ui/badge.tsx';
import { Choice, Field } from '../ui/fields.tsx';
import { Pages } from '../ui/pages.tsx';
import { Table } from '../ui/states.tsx';
import { AddAccount } from './account-dialogs.tsx';

const say = texts.accounts;
const pageSize = 50;

/** The input is a whole API key. Only its hash is sent. */
const apiKey = /^[ps]k_(?:test|live)_[A-Za-z0-9_-]{16,200}$/;
/** The input may become a key, so it is not searched for either. */
const beginOfKey = /^[ps]k_(?:test|live)_/;

/** All accounts: searched, filtered, page by page. */
export function Accounts() {
  const search = useSignal('');
  const filter = useSignal<AccountFilter | 'all'>('all');
  const adding = useSignal(false);
  const isNarrowed = search.value !== '' || filter.value !== 'all';
  return (
    <>
      <div class="row between">
        <h1>{texts.pages.accounts}</h1>
        {mayChange() && (
          <button class="primary" onClick={set(adding, true)}>
            {say.add}
          </button>
        )}
      </div>
      <div class="search">
        <SearchField search={search} />
        <Choice label={say.filter} of={filter} options={say.filters} />
      </div>
      <Pages
        key={JSON.stringify([search.value, filter.value])}
        ask={(after) => {
          const query = {
            limit: pageSize,
            ...after,
            ...(search.value !== '' && { search: search.value }),
            ...(filter.value !== 'all' && { filter: filter.value }),
          };
          return ask(api.GET('/api/v1/accounts', { params: { query } }));
        }}
      >
        {({ accounts }) => <List accounts={accounts} empty={isNarrowed ? say.none : say.empty} />}
      </Pages>
      {adding.value && <AddAccount onClose={set(adding, false)} />}
    </>
  );
}

function SearchField({ search }: { search: Signal<string> }) {
  const typed = useSignal('');
  const unknownKey = useSignal(false);
  const find = async (key: string): Promise<void> => {
    unknownKey.value = !(await findKey(key));
  };
  useEffect(() => {
    const text = typed.value.trim();
    unknownKey.value = false;
    const timer = setTimeout(() => {
      if (apiKey.test(text)) {
        void find(text);
      } else if (!beginOfKey.test(text)) {
        search.value = text;
      }
    }, 250);
    return () => clearTimeout(timer);
  }, [typed.value, search, typed, unknownKey]);
  return (
    <div class="grow">
      <Field label={say.search} hint={say.searchHint}>
        {(control) => (
          <input
            {...control}
            type="search"
            value={typed.value}
            autocomplete="off"
            spellcheck={false}
            onInput={setText(typed)}
          />
        )}
      </Field>
      <div role="status">{unknownKey.value && <p class="box warn">{say.keyUnknown}</p>}</div>
    </div>
  );
}

/** Opens the account of a key, by its hash. Returns whether there is one. */
async function findKey(key: string): Promise<boolean> {
  try {
    const found = await ask(api.GET('/api/v1/keys/find', { params: { query: { sha256: await sha256(key) } } }));
    goTo('accounts', found.account, 'keys');
    notice.value = { tone: 'good', text: say.foundKey(found.id) };
    return true;
  } catch (error) {
    if (error instanceof Refused) return error.code !== 'key_unknown';
    throw error;
  }
}

function List({ accounts, empty }: { accounts: readonly Account[]; empty: string }) {
  const head = [say.id, say.name, say.state, say.keys, say.encryption];
  return (
    <Table label={texts.pages.accounts} head={head} rows={accounts} empty={empty}>
      {(account) => (
        <tr key={account.id}>
          <th scope="row">
            <a href={linkTo('accounts', account.id)}>{account.id}</a>
          </th>
          <td>{account.name}</td>
          <td>
            <Badge tone={account.active ? 'good' : 'quiet'}>{account.active ? texts.active : texts.inactive}</Badge>
          </td>
          <td>
            <KeySummary account={account} />
          </td>
          <td>
            <EncryptionBadges account={account} />
          </td>
        </tr>
      )}
    </Table>
  );
}

function KeySummary({ account: { keys } }: { account: Account }) {
  const valid = keys.filter(({ state }) => state === 'valid');
  const has = (warning: 'due' | 'expiring'): boolean => valid.some(({ warnings }) => warnings.includes(warning));
  return (
    <span class="row tight">
      {valid.length}
      {has('due') && <Badge tone="warn">{texts.keys.warnings.due}</Badge>}
      {has('expiring') && <Badge tone="warn">{texts.keys.warnings.expiring}</Badge>}
    </span>
  );
}

function EncryptionBadges({ account }: { account: Account }) {
  const names = (['test', 'live'] as const satisfies EnvironmentName[]).filter(
    (name) => account.encryption[name].enabled || account.encryption[name].previous !== null,
  );
  if (names.length === 0) return <span class="faint">{say.off}</span>;
  return (
    <span class="row tight">
      {names.map((name) => {
        const { enabled, previous } = account.encryption[name];
        return (
          <Badge key={name} tone={enabled ? 'good' : 'quiet'}>
            {texts.environments[name]}
            {previous !== null && `, ${say.grace}`}
          </Badge>
        );
      })}
    </span>
  );
}

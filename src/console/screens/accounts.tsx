import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { api, ask, given, catchRefusal, type AccountFilter, type ListedAccount } from '../api.ts';
import { sha256 } from '../envelope.ts';
import { useLoad } from '../load.ts';
import { type Cell, goTo, inAddress, linkWith, openAddress, set, setText } from '../route.ts';
import { mayChange } from '../session.ts';
import { texts } from '../texts.ts';
import { AccountLink, ActiveBadge, Badge, When } from '../ui/inline.tsx';
import { Choice, Field, searchInput } from '../ui/fields.tsx';
import { copyItem, Menu, type MenuItem } from '../ui/menu.tsx';
import { Pages } from '../ui/pages.tsx';
import { Table } from '../ui/table.tsx';
import { lastUse, useHeading, UseLine } from '../ui/use-line.tsx';
import { AddAccount } from './account-dialogs.tsx';

const say = texts.accounts;
const pageSize = 50;

/** Matches a whole API key. Only the hash of the key is sent. */
const apiKey = /^[ps]k_(?:test|live)_[A-Za-z0-9_-]{16,200}$/;
/** Matches the beginning of an API key. Such input is not searched for, because a search would send it. */
const beginOfKey = /^[ps]k_(?:test|live)_/;

/** All accounts, page by page, with a search and a filter. */
export function Accounts() {
  const search = inAddress('search');
  const filter = inAddress<AccountFilter>('filter');
  const adding = useSignal(false);
  const { data: overview } = useLoad(() => ask(api.GET('/api/v1/overview')));
  const isNarrowed = search.value !== '' || filter.value !== '';
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
        at={inAddress('page')}
        ask={(after) => {
          const query = {
            limit: pageSize,
            ...after,
            ...given({ search: search.value, filter: filter.value }),
          };
          return ask(api.GET('/api/v1/accounts', { params: { query } }));
        }}
      >
        {({ accounts }) => (
          <>
            {overview.value?.counts && (
              <p class="hint" role="status">
                {texts.overview.used(accounts.length, Math.max(accounts.length, overview.value.counts.accounts))}
              </p>
            )}
            <List accounts={accounts} empty={isNarrowed ? say.none : say.empty} />
          </>
        )}
      </Pages>
      {adding.value && <AddAccount onClose={set(adding, false)} />}
    </>
  );
}

function SearchField({ search }: { search: Cell<string> }) {
  const typed = useSignal(search.value);
  const unknownKey = useSignal(false);
  useEffect(() => {
    const text = typed.value.trim();
    unknownKey.value = false;
    const find = async (): Promise<void> => {
      const refused = await catchRefusal(() => openAccountWithKey(text));
      unknownKey.value = refused?.code === 'key_unknown';
    };
    const timer = setTimeout(() => {
      if (apiKey.test(text)) {
        void find();
      } else if (!beginOfKey.test(text)) {
        if (text !== search.value) search.value = text;
      }
    }, 250);
    return () => clearTimeout(timer);
  }, [typed.value]);
  return (
    <div class="grow">
      <Field label={say.search} hint={say.searchHint}>
        {(control) => <input {...control} {...searchInput} value={typed.value} onInput={setText(typed)} />}
      </Field>
      <div role="status">{unknownKey.value && <p class="box warn">{say.keyUnknown}</p>}</div>
    </div>
  );
}

/** Finds a key by its hash, and opens the page of its account. */
async function openAccountWithKey(key: string): Promise<void> {
  const found = await ask(api.GET('/api/v1/keys/find', { params: { query: { sha256: await sha256(key) } } }));
  openAddress(linkWith('key', found.id, 'accounts', found.account, 'keys'));
}

function List({ accounts, empty }: { accounts: readonly ListedAccount[]; empty: string }) {
  return (
    <Table
      label={texts.pages.accounts}
      rows={accounts}
      keyOf={({ id }) => id}
      columns={[
        [texts.columns.account, ({ id }) => <AccountLink id={id} />],
        [say.name, ({ name }) => name, 'name'],
        [texts.columns.state, ({ active }) => <ActiveBadge active={active} />],
        [say.keys, ({ keys }) => <KeySummary keys={keys} />],
        [say.encryption, ({ encryption }) => <EncryptionBadges encryption={encryption} />],
        [useHeading(accounts), ({ use }) => <UseLine use={use} />],
        [texts.keys.lastUsed, ({ keys, use }) => <When date={lastUse(keys, use)} />],
        [texts.keys.actions, ({ id }) => <Actions of={id} />, 'actions'],
      ]}
      empty={empty}
    />
  );
}

function Actions({ of: id }: { of: string }) {
  const tabs = (['keys', 'encryption', 'activity'] as const).map((tab): MenuItem => [
    texts.pages[tab],
    () => goTo('accounts', id, tab),
  ]);
  return <Menu of={id} items={[...tabs, copyItem(id)]} />;
}

function KeySummary({ keys }: Pick<ListedAccount, 'keys'>) {
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

function EncryptionBadges({ encryption: { test, live } }: Pick<ListedAccount, 'encryption'>) {
  const used = [test, live].filter(({ enabled, previous }) => enabled || previous !== null);
  if (used.length === 0) return <span class="faint">{texts.encryption.off}</span>;
  return (
    <span class="row tight">
      {used.map(({ environment, enabled, previous }) => (
        <Badge key={environment} tone={enabled ? 'good' : 'quiet'}>
          {texts.environments[environment]}
          {previous !== null && `, ${say.grace}`}
        </Badge>
      ))}
    </span>
  );
}

import { useSignal } from '@preact/signals';
import { api, ask, type Account } from '../api.ts';
import { useAttempt, useLoad } from '../load.ts';
import { announceChange } from '../notices.ts';
import { linkTo, set } from '../route.ts';
import { mayActivate, mayRename, session } from '../session.ts';
import { texts } from '../texts.ts';
import { ActiveBadge } from '../ui/inline.tsx';
import { Nav } from '../ui/nav.tsx';
import { Problem, Show } from '../ui/states.tsx';
import { sumUses, traffic } from '../ui/use-line.tsx';
import { DeactivateAccount, RenameAccount } from './account-dialogs.tsx';
import { Activity } from './activity.tsx';
import { Encryptions } from './encryption.tsx';
import { Keys } from './keys.tsx';

const say = texts.account;

/** The tabs of an account, in order. The first one is shown by default. */
const tabs = { keys: Keys, encryption: Encryptions, activity: Activity } as const;
type TabName = keyof typeof tabs;
const tabNames = Object.keys(tabs) as TabName[];

/** One account: its keys, its encryption and its activity. */
export function AccountPage({ id, tab }: { id: string; tab: string | undefined }) {
  const params = { path: { account: id } };
  const loaded = useLoad(() => ask(api.GET('/api/v1/accounts/{account}', { params })), 2_000);
  const current: TabName = tab !== undefined && Object.hasOwn(tabs, tab) ? (tab as TabName) : 'keys';
  const Tab = tabs[current];
  return (
    <>
      {session.value?.account === null && (
        <p class="crumb">
          <a href={linkTo('accounts')}>{texts.pages.accounts}</a> <span aria-hidden="true">/</span>
        </p>
      )}
      {loaded.data.value === undefined && loaded.refused.value !== undefined && <h1>{id}</h1>}
      <Show loaded={loaded}>
        {(account) => (
          <>
            <Head account={account} reload={loaded.reload} />
            <Nav class="tabs" label={id} names={tabNames} current={current} within={['accounts', id]} />
            <Tab account={account} reload={loaded.reload} />
          </>
        )}
      </Show>
    </>
  );
}

function Head({ account, reload }: { account: Account; reload: () => void }) {
  const asking = useSignal<'rename' | 'deactivate' | undefined>(undefined);
  const [refused, attempt] = useAttempt();
  const dialog = { account, onDone: reload, onClose: set(asking, undefined) };
  const params = { path: { account: account.id } };
  const activate = async (): Promise<void> => {
    const changed = await ask(api.POST('/api/v1/accounts/{account}/activate', { params }));
    reload();
    announceChange(say.activated, changed);
  };
  return (
    <>
      <div class="row between">
        <div>
          <h1>{account.name}</h1>
          <p class="row">
            <code>{account.id}</code>
            <ActiveBadge active={account.active} />
            <span class="hint">{traffic(sumUses(account.keys.map(({ use }) => use)))}</span>
          </p>
        </div>
        <div class="row">
          {mayRename() && <button onClick={set(asking, 'rename')}>{say.rename}</button>}
          {mayActivate() &&
            (account.active ? (
              <button onClick={set(asking, 'deactivate')}>{say.deactivate}</button>
            ) : (
              <button onClick={() => attempt(activate)}>{say.activate}</button>
            ))}
        </div>
      </div>
      <Problem refused={refused.value} />
      {!account.active && <p class="box warn">{say.inactive}</p>}
      {asking.value === 'rename' && <RenameAccount {...dialog} />}
      {asking.value === 'deactivate' && <DeactivateAccount {...dialog} />}
    </>
  );
}

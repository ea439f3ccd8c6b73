import { useSignal } from '@preact/signals';
import { api, ask, refusalOf, type Account, type Refused } from '../api.ts';
import { useLoad } from '../load.ts';
import { tellChanged } from '../notices.ts';
import { linkTo } from '../route.ts';
import { mayChange, session } from '../session.ts';
import { set } from '../set.ts';
import { texts } from '../texts.ts';
import { Badge } from '../ui/badge.tsx';
import { Problem, Show } from '../ui/states.tsx';
import { DeactivateAccount, RenameAccount } from './account-dialogs.tsx';
import { Activity } from './activity.tsx';
import { Encryptions } from './encryption.tsx';
import { Keys } from './keys.tsx';

const say = texts.account;

/** The tabs of an account, in their order; the first is shown at the start. */
const tabs = { keys: Keys, encryption: Encryptions, activity: Activity } as const;
type TabName = keyof typeof tabs;

/** One account: its keys, its encryption and its activity. */
export function AccountPage({ id, tab }: { id: string; tab: string | undefined }) {
  const loaded = useLoad(
    () => ask(api.GET('/api/v1/accounts/{account}', { params: { path: { account: id } } })),
    id,
    2_000,
  );
  const current: TabName = tab !== undefined && Object.hasOwn(tabs, tab) ? (tab as TabName) : 'keys';
  const Tab = tabs[current];
  return (
    <>
      {session.value?.account === null && (
        <p class="crumb">
          <a href={linkTo('accounts')}>{say.crumb}</a> <span aria-hidden="true">/</span>
        </p>
      )}
      <Show loaded={loaded}>
        {(account) => (
          <>
            <Head account={account} show={loaded.show} />
            <nav class="tabs" aria-label={account.id}>
              <ul>
                {(Object.keys(tabs) as TabName[]).map((name) => (
                  <li key={name}>
                    <a href={linkTo('accounts', id, name)} aria-current={name === current ? 'page' : undefined}>
                      {texts.pages[name]}
                    </a>
                  </li>
                ))}
              </ul>
            </nav>
            <Tab account={account} reload={loaded.reload} />
          </>
        )}
      </Show>
    </>
  );
}

function Head({ account, show }: { account: Account; show: (changed: Account) => void }) {
  const asking = useSignal<'rename' | 'deactivate' | undefined>(undefined);
  const refused = useSignal<Refused | undefined>(undefined);
  const dialog = { account, onDone: show, onClose: set(asking, undefined) };
  const params = { path: { account: account.id } };
  const activate = async (): Promise<void> => {
    refused.value = await refusalOf(async () => {
      const changed = await ask(api.POST('/api/v1/accounts/{account}/activate', { params }));
      show(changed);
      tellChanged(say.activated, changed);
    });
  };
  return (
    <>
      <div class="row between">
        <div>
          <h1>{account.name}</h1>
          <p class="row">
            <code>{account.id}</code>
            <Badge tone={account.active ? 'good' : 'quiet'}>{account.active ? texts.active : texts.inactive}</Badge>
          </p>
        </div>
        {mayChange() && (
          <div class="row">
            <button onClick={set(asking, 'rename')}>{say.rename}</button>
            {account.active ? (
              <button onClick={set(asking, 'deactivate')}>{say.deactivate}</button>
            ) : (
              <button onClick={() => void activate()}>{say.activate}</button>
            )}
          </div>
        )}
      </div>
      <Problem refused={refused.value} />
      {!account.active && <p class="box warn">{say.inactive}</p>}
      {asking.value === 'rename' && <RenameAccount {...dialog} />}
      {asking.value === 'deactivate' && <DeactivateAccount {...dialog} />}
    </>
  );
}

import { api, ask, type Account, type Refusal } from '../api.ts';
import { useLoad } from '../load.ts';
import { linkTo } from '../route.ts';
import { texts } from '../texts.ts';
import { Show } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';
import { Id, When } from '../ui/inline.tsx';
import { Events } from './audit.tsx';

const say = texts.activity;

/** The recent refusals of an account, each with an explanation. */
export function Activity({ account }: { account: Account }) {
  const params = { query: { account: account.id } };
  const loaded = useLoad(() => ask(api.GET('/api/v1/activity', { params })), 5_000);
  return (
    <section aria-label={texts.pages.activity}>
      <div>
        <h2>{say.refusals}</h2>
        <p class="hint">{say.intro}</p>
      </div>
      <Show loaded={loaded}>{({ refusals }) => <RefusalTable refusals={refusals} />}</Show>
      <h2>{say.trail}</h2>
      <Events wanted={{ account: account.id }} />
    </section>
  );
}

/** Refusals, newest first. */
function RefusalTable({ refusals }: { refusals: readonly Refusal[] }) {
  return (
    <Table
      label={say.refusals}
      rows={refusals}
      keyOf={({ request_id: id, time }) => id + time}
      columns={[
        [texts.columns.time, ({ time }) => <When date={time} />],
        [say.code, (refusal) => <Explained refusal={refusal} />, 'wide'],
        [
          say.route,
          ({ environment, route }) => (
            <>
              {texts.environments[environment]} <code>{route}</code>
            </>
          ),
        ],
        [
          say.key,
          ({ account, key }) => (
            <a href={linkTo('accounts', account, 'keys')}>
              <Id id={key} />
            </a>
          ),
        ],
        [texts.requestId, ({ request_id: id }) => <code>{id}</code>],
      ]}
      empty={say.none}
    />
  );
}

function Explained({ refusal: { code, reason } }: { refusal: Refusal }) {
  return (
    <>
      <code>{code}</code>
      {reason !== null && <span class="faint"> ({say.reasons[reason as keyof typeof say.reasons] ?? reason})</span>}
      <span class="hint block">{texts.refusals[code] ?? ''}</span>
    </>
  );
}

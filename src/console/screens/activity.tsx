import { api, ask, type Account, type Refusal } from '../api.ts';
import { useLoad } from '../load.ts';
import { linkTo } from '../route.ts';
import { texts } from '../texts.ts';
import { Show, Table } from '../ui/states.tsx';
import { When } from '../ui/when.tsx';
import { Events } from './audit.tsx';

const say = texts.activity;

/** The recent refusals of an account, each with an explanation. */
export function Activity({ account }: { account: Account }) {
  const loaded = useLoad(
    () => ask(api.GET('/api/v1/activity', { params: { query: { account: account.id } } })),
    account.id,
    5_000,
  );
  return (
    <section aria-label={texts.pages.activity}>
      <div>
        <h2>{say.refusals}</h2>
        <p class="hint">{say.intro}</p>
      </div>
      <Show loaded={loaded}>{({ refusals }) => <RefusalTable refusals={refusals} />}</Show>
      <h2>{say.trail}</h2>
      <Events account={account.id} days="" />
    </section>
  );
}

/** Refusals, newest first. */
function RefusalTable({ refusals }: { refusals: readonly Refusal[] }) {
  const head = [say.time, say.code, say.route, say.key, say.requestId];
  return (
    <Table label={say.refusals} head={head} rows={refusals} empty={say.none}>
      {(refusal) => (
        <tr key={refusal.request_id + refusal.time}>
          <td>
            <When date={refusal.time} />
          </td>
          <td class="wide">
            <code>{refusal.code}</code>
            {refusal.reason !== null && (
              <span class="faint"> ({say.reasons[refusal.reason as keyof typeof say.reasons] ?? refusal.reason})</span>
            )}
            <span class="hint block">{texts.refusals[refusal.code] ?? ''}</span>
          </td>
          <td>
            {texts.environments[refusal.environment]} <code>{refusal.route}</code>
          </td>
          <td>
            <a href={linkTo('accounts', refusal.account, 'keys')}>
              <code>{refusal.key}</code>
            </a>
          </td>
          <td>
            <code>{refusal.request_id}</code>
          </td>
        </tr>
      )}
    </Table>
  );
}

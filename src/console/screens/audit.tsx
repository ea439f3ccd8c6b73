import { useSignal } from '@preact/signals';
import { api, ask, refusalOf, type AuditEvent, type Refused } from '../api.ts';
import { csvOf } from '../csv.ts';
import { inFull } from '../dates.ts';
import { linkTo } from '../route.ts';
import { setText } from '../set.ts';
import { texts } from '../texts.ts';
import { Choice, Field, searchInput } from '../ui/fields.tsx';
import { Pages, type After } from '../ui/pages.tsx';
import { Problem } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';

const say = texts.audit;

interface Wanted {
  readonly account: string;
  /** Days back; empty: from the beginning. */
  readonly days: string;
}

function eventsOf({ account, days }: Wanted, after: After, limit: number) {
  const since = days === '' ? undefined : new Date(Date.now() - Number(days) * 86_400_000).toISOString();
  const query = { limit, ...(account !== '' && { account }), ...(since !== undefined && { since }), ...after };
  return ask(api.GET('/api/v1/audit', { params: { query } }));
}

/** The audit trail of all accounts or of one. */
export function Audit() {
  const account = useSignal('');
  const days = useSignal<keyof typeof say.periods>('7');
  return (
    <>
      <h1>{texts.pages.audit}</h1>
      <div class="search">
        <Field label={texts.columns.account} hint={say.accountHint}>
          {(control) => <input {...control} {...searchInput} onChange={setText(account)} />}
        </Field>
        <Choice label={say.period} of={days} options={say.periods} />
      </div>
      <Events key={`${account.value} ${days.value}`} account={account.value.trim()} days={days.value} />
    </>
  );
}

/** The selected events in pages, and all of them as CSV. */
export function Events(wanted: Wanted) {
  const refused = useSignal<Refused | undefined>(undefined);
  const exportAll = async (): Promise<void> => {
    refused.value = await refusalOf(async () => {
      download(`audit-${wanted.account === '' ? 'all' : wanted.account}.csv`, csvOf(await allEvents(wanted)));
    });
  };
  return (
    <Pages ask={(after) => eventsOf(wanted, after, 100)} every={10_000}>
      {({ events }) => (
        <>
          <Problem refused={refused.value} />
          {events.length > 0 && (
            <div class="row end">
              <button onClick={() => void exportAll()}>{say.export}</button>
            </div>
          )}
          <EventTable events={events} />
        </>
      )}
    </Pages>
  );
}

function EventTable({ events }: { events: readonly AuditEvent[] }) {
  return (
    <Table
      label={texts.pages.audit}
      rows={events}
      keyOf={({ at }, i) => `${at} ${i}`}
      columns={[
        [texts.columns.time, ({ at }) => <time dateTime={at}>{inFull(at)}</time>],
        [say.actor, ({ actor }) => <code>{actor}</code>],
        [say.action, ({ action }) => say.actions[action]],
        [
          texts.columns.account,
          ({ account }) => account !== null && <a href={linkTo('accounts', account)}>{account}</a>,
        ],
        [say.details, ({ details }) => <Details details={details} />],
      ]}
      empty={say.none}
    />
  );
}

function Details({ details }: Pick<AuditEvent, 'details'>) {
  return Object.entries(details).map(([name, value]) => (
    <span key={name} class="block">
      <span class="faint">{name}</span> <code>{String(value)}</code>
    </span>
  ));
}

async function allEvents(wanted: Wanted, after: After = {}): Promise<AuditEvent[]> {
  const { events, next } = await eventsOf(wanted, after, 1_000);
  return next === null ? events : [...events, ...(await allEvents(wanted, { after: next }))];
}

function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

import { useSignal } from '@preact/signals';
import { api, ask, refusalOf, type AuditEvent, type Refused } from '../api.ts';
import { csvOf } from '../csv.ts';
import { inFull } from '../dates.ts';
import { download } from '../download.ts';
import { inAddress, linkTo, type Cell } from '../route.ts';
import { entriesOf, nameOf, sentenceOf } from '../sentences.ts';
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
  const query = { limit, ...(account !== '' && { account }), ...(since !== undefined && { since }) };
  const before = after.after === undefined ? {} : { before: after.after };
  return ask(api.GET('/api/v1/audit', { params: { query: { ...query, ...before } } }));
}

/** The audit trail of all accounts or of one. */
export function Audit() {
  const account = inAddress('account');
  const days = inAddress<keyof typeof say.periods>('days', '7');
  return (
    <>
      <h1>{texts.pages.audit}</h1>
      <div class="search">
        <Field label={texts.columns.account} hint={say.accountHint}>
          {(control) => <input {...control} {...searchInput} value={account.value} onChange={setText(account)} />}
        </Field>
        <Choice label={say.period} of={days} options={say.periods} />
      </div>
      <Events
        key={`${account.value} ${days.value}`}
        account={account.value.trim()}
        days={days.value}
        at={inAddress('after')}
      />
    </>
  );
}

/** The selected events in pages, and all of them as CSV. */
export function Events({ at, ...wanted }: Wanted & { at?: Cell<string> }) {
  const refused = useSignal<Refused | undefined>(undefined);
  const exportAll = async (): Promise<void> => {
    refused.value = await refusalOf(async () => {
      download(
        `audit-${wanted.account === '' ? 'all' : wanted.account}.csv`,
        'text/csv',
        csvOf(await allEvents(wanted)),
      );
    });
  };
  return (
    <Pages ask={(after) => eventsOf(wanted, after, 100)} every={10_000} {...(at !== undefined && { at })}>
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
      rows={entriesOf(events)}
      keyOf={([{ at }], i) => `${at} ${i}`}
      columns={[
        [texts.columns.time, ([{ at }]) => <time dateTime={at}>{inFull(at)}</time>],
        [say.actor, ([{ actor }]) => <span title={actor}>{nameOf(actor)}</span>],
        [say.action, (entry) => <What entry={entry} />, 'wide'],
        [texts.columns.account, (entry) => entry.length === 1 && <AccountLink event={entry[0]} />],
      ]}
      empty={say.none}
    />
  );
}

/** What was done; of an import of several accounts, their number, and each when it is opened. */
function What({ entry }: { entry: readonly [AuditEvent, ...AuditEvent[]] }) {
  if (entry.length === 1) return <>{sentenceOf(entry[0])}</>;
  return (
    <details>
      <summary>{say.imported(entry.length)}</summary>
      <ul>
        {entry.map((event) => (
          <li key={event.account}>
            <AccountLink event={event} />
          </li>
        ))}
      </ul>
    </details>
  );
}

function AccountLink({ event: { account } }: { event: AuditEvent }) {
  return account === null ? null : <a href={linkTo('accounts', account)}>{account}</a>;
}

async function allEvents(wanted: Wanted, after: After = {}): Promise<AuditEvent[]> {
  const { events, next } = await eventsOf(wanted, after, 1_000);
  return next === null ? events : [...events, ...(await allEvents(wanted, { after: next }))];
}

import { api, ask, given, type AuditEvent, type AuditQuery } from '../api.ts';
import { toCsv, download } from '../csv.ts';
import { useAttempt } from '../load.ts';
import { inFull } from '../dates.ts';
import { type Cell, inAddress, setText } from '../route.ts';
import { actions, groupEvents, isOneImport, formatActor, Sentence } from '../sentences.tsx';
import { texts } from '../texts.ts';
import { Choice, Field, searchInput } from '../ui/fields.tsx';
import { Pages } from '../ui/pages.tsx';
import { Problem } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';

const say = texts.audit;
const day = 86_400_000;

/** The filters, by their names in the address. An empty filter selects everything. Dates are whole days. */
type Wanted = Readonly<Partial<Record<'actor' | 'action' | 'account' | 'environment' | 'from' | 'to', string>>>;

/** The audit trail of all accounts or of one. */
export function Audit() {
  const of = {
    actor: inAddress('actor'),
    action: inAddress<AuditEvent['action']>('action'),
    account: inAddress('account'),
    environment: inAddress<keyof typeof texts.environments>('environment'),
    from: inAddress('from'),
    to: inAddress('to'),
  };
  const wanted = Object.fromEntries(Object.entries(of).map(([name, { value }]) => [name, value.trim()]));
  return (
    <>
      <h1>{texts.pages.audit}</h1>
      <div class="filters">
        <Typed label={say.actor} of={of.actor} />
        <Choice label={say.action} of={of.action} options={{ '': say.anything, ...actions }} />
        <Typed label={texts.columns.account} of={of.account} />
        <Choice
          label={texts.columns.environment}
          of={of.environment}
          options={{ '': say.both, ...texts.environments }}
        />
        <Typed label={say.from} of={of.from} isDate />
        <Typed label={say.to} of={of.to} isDate />
      </div>
      <Events key={JSON.stringify(wanted)} wanted={wanted} at={inAddress('page')} />
    </>
  );
}

/** A filter that takes effect when its text or date is complete. */
function Typed({ label, of, isDate = false }: { label: string; of: Cell<string>; isDate?: boolean }) {
  const input = { value: of.value, onChange: setText(of) };
  return (
    <Field label={label}>
      {(control) =>
        isDate ? <input {...control} {...input} type="date" /> : <input {...control} {...searchInput} {...input} />
      }
    </Field>
  );
}

/** Shows the selected events page by page, and exports all of them as CSV. */
export function Events({ wanted, at }: { wanted: Wanted; at?: Cell<string> }) {
  const [refused, attempt] = useAttempt();
  const query = buildQuery(wanted);
  const exportAll = async (): Promise<void> => {
    download(`audit-${wanted.account || 'all'}.csv`, toCsv(await allEvents(query)));
  };
  return (
    <Pages ask={({ after }) => fetchPage(query, after)} every={10_000} {...(at !== undefined && { at })}>
      {({ events }) => (
        <>
          <Problem refused={refused.value} />
          {events.length > 0 && (
            <div class="row end">
              <button onClick={() => attempt(exportAll)}>{say.export}</button>
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
      rows={groupEvents(events)}
      keyOf={([{ position }]) => String(position)}
      columns={[
        [texts.columns.time, ([{ at }]) => <time dateTime={at}>{inFull(at)}</time>],
        [say.actor, ([{ actor }]) => <span title={actor}>{formatActor(actor)}</span>],
        [say.action, (entry) => <What entry={entry} />, 'wide'],
        [say.origin, ([{ origin }]) => origin],
      ]}
      empty={say.none}
    />
  );
}

/** Shows what was done. For an import of several accounts, shows how many there are; opening the entry lists them. */
function What({ entry }: { entry: readonly [AuditEvent, ...AuditEvent[]] }) {
  if (entry.length === 1) return <Sentence event={entry[0]} />;
  return (
    <details>
      <summary>{say.imported(entry.length)}</summary>
      <ul>
        {entry.map((event) => (
          <li key={event.position}>
            <Sentence event={event} />
          </li>
        ))}
      </ul>
    </details>
  );
}

function buildQuery({ from = '', to = '', ...wanted }: Wanted): AuditQuery {
  const end = Date.parse(to) + day;
  const members = { ...wanted, since: from, until: Number.isNaN(end) ? to : new Date(end).toISOString() };
  return given(members) as AuditQuery;
}

function fetchEvents(query: AuditQuery) {
  return ask(api.GET('/api/v1/audit', { params: { query } }));
}

/** @param place `before-N` or `after-N`, where N is the position next to the page; undefined for the newest events */
async function fetchPage(
  query: AuditQuery,
  place = '',
): Promise<{
  readonly events: readonly AuditEvent[];
  readonly previous: string | null;
  readonly next: string | null;
  readonly unreadable: readonly string[];
}> {
  const [way = 'before', position] = place === '' ? [] : place.split('-');
  const { events, unreadable, ...page } = await fetchEvents({ ...query, limit: 100, [way]: position });
  let { next } = page;
  // An import is one row, however many accounts it has, so all of its events are loaded.
  const last = events.at(-1);
  let isCut = last?.action === 'account_imported';
  while (isCut && next !== null && events.length < 10_000) {
    const more = await fetchEvents({ ...query, limit: 1_000, [way]: next });
    const end = more.events.findIndex((event) => last === undefined || !isOneImport(last, event));
    isCut = end === -1;
    events.push(...more.events.slice(0, isCut ? undefined : end));
    next = isCut ? more.next : String(events.at(-1)?.position);
  }
  if (way === 'after') {
    // Load the page with the newest events again, starting at the newest event, so that this page is full too.
    if (next === null) return { ...(await fetchPage(query)), previous: null };
    events.reverse();
  }
  const [newer, older] = [events[0], events.at(-1)].map((event) => event?.position ?? null);
  return {
    events,
    previous: place === '' || newer === null ? null : `after-${newer}`,
    next: (way === 'before' && next === null) || older === null ? null : `before-${older}`,
    unreadable,
  };
}

async function allEvents(query: AuditQuery): Promise<AuditEvent[]> {
  const { events, next } = await fetchEvents({ ...query, limit: 1_000 });
  return next === null ? events : [...events, ...(await allEvents({ ...query, before: next }))];
}
